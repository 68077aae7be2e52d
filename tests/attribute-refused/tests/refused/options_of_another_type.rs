use zklock::{LockError, zk_locked};

#[zk_locked("order", options = Some(7))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
