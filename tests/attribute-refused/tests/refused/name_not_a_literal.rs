use zklock::{LockError, zk_locked};

#[zk_locked(format!("orders"))]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
