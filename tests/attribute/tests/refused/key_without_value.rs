use zklock::{LockError, zk_locked};

#[zk_locked("order", key)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
