use zklock::{LockError, zk_locked};

#[zk_locked("order", stop_at = suspended)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
