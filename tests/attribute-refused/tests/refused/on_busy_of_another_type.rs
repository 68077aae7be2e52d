use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = |error| error.to_string())]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
