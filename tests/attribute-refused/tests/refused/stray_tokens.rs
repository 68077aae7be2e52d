use zklock::{LockError, zk_locked};

#[zk_locked("order", = 3, , timeout == "2s", retries = , ..)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked = "order"]
async fn assigned() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
