use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(0))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
