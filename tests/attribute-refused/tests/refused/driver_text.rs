use zklock::{LockError, zk_locked};

#[zk_locked("order", driver = "curator")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
