use zklock::{LockError, zk_locked};

#[zk_locked("order", "orders")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
