use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = |a, b| Ok(()))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
