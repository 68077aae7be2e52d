use zklock::{LockError, zk_locked};

#[zk_locked("order", linger = "5s", try_once)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
