use zklock::{LockError, zk_locked};

#[zk_locked("order", hold_at_least = "0s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
