use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
