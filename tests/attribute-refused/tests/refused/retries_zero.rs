use zklock::{LockError, zk_locked};

#[zk_locked("order", retries = 0)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
