use zklock::{LockError, zk_locked};

#[zk_locked("order", on_error = skip)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
