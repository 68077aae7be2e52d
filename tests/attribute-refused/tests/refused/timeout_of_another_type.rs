use zklock::{LockError, zk_locked};

#[zk_locked("order", timeout = 1 + 1)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
