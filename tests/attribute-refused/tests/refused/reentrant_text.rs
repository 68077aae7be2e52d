use zklock::{LockError, zk_locked};

#[zk_locked("order", reentrant = "no")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
