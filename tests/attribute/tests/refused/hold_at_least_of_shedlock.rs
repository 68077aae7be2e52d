use zklock::{LockError, zk_locked};

#[zk_locked("order", lockAtLeastFor = "30s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
