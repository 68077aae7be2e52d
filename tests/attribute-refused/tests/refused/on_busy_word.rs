use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = ignore)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
