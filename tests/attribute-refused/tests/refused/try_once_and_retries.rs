use zklock::{LockError, zk_locked};

#[zk_locked("order", try_once, retries = 3)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
