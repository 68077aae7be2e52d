use zklock::{LockError, zk_locked};

#[zk_locked("order", driver = kazoo)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
