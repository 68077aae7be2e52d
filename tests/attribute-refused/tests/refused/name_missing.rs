use zklock::{LockError, zk_locked};

#[zk_locked(timeout = "2s")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
