use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = slow)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
