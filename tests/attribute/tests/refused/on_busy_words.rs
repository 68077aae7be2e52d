use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = none)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
