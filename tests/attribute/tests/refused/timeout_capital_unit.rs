use zklock::{LockError, zk_locked};

#[zk_locked("order", timeout = "2S")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
