use zklock::{LockError, zk_locked};

#[zk_locked("order", session = "")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
