use zklock::{LockError, zk_locked};

#[zk_locked("order", condition = "amount > 0")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
