use zklock::{LockError, zk_locked};

#[zk_locked("order", fair, linger = "5s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
