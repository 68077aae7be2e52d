use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(3), hold_at_least = "30s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
