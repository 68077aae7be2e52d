use zklock::{LockError, zk_locked};

#[zk_locked(ORDER)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
