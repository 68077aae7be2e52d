use zklock::{LockError, zk_locked};

#[zk_locked("order", revocable, on_revoke = cancel, onRevoked = cancel)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
