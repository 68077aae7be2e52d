use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = "read")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
