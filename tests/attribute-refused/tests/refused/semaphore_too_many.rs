use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(3_000_000_000))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
