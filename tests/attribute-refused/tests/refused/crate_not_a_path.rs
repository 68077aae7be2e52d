use zklock::{LockError, zk_locked};

#[zk_locked("order", crate = 1)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
