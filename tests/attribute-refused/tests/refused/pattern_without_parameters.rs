use zklock::{LockError, zk_locked};

#[zk_locked("order-{id}")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
