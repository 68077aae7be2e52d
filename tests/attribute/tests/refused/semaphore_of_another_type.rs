use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(permits))]
async fn guarded(permits: usize) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
