use zklock::{LockError, zk_locked};

#[zk_locked("order", retries = 5_000_000_000)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
