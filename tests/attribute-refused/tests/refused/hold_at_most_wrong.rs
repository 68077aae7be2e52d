use zklock::{LockError, zk_locked};

#[zk_locked("order", hold_at_most = 15)]
async fn without_unit() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", hold_at_most = "0s")]
async fn never() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", hold_at_most = "29s", hold_at_least = "30s")]
async fn shorter() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
