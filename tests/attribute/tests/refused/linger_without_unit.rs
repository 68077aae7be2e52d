use zklock::{LockError, zk_locked};

#[zk_locked("order", linger = 5)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
