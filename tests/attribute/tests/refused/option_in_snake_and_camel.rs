use zklock::{LockError, zk_locked};

#[zk_locked("order", tryOnce, onBusy = skip)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
