use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(3), linger = "5s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
