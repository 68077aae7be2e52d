use zklock::{LockError, zk_locked};

#[zk_locked("order", condition = true)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
