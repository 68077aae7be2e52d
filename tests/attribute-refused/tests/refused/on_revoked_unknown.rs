use zklock::{LockError, zk_locked};

#[zk_locked("order", on_revoked = cancle)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
