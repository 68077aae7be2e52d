use zklock::{LockError, zk_locked};

#[zk_locked("order", driver = 7)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
