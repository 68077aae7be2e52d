use zklock::{LockError, zk_locked};

#[zk_locked("order", timeout = "5 Millis")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
