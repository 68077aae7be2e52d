use zklock::{LockError, zk_locked};

#[zk_locked("order", on_revoked = cancel, on_revoked = ignore)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
