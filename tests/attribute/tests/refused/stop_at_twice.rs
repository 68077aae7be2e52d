use zklock::{LockError, zk_locked};

#[zk_locked("order", stop_at = lost, stop_at = lost)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
