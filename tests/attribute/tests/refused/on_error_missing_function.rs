use zklock::{LockError, zk_locked};

#[zk_locked("order", on_error = respond)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
