use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = read, hold_at_least = "30s")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
