use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = async |error| Err(error))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
