use zklock::{LockError, zk_locked};

#[zk_locked("")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
