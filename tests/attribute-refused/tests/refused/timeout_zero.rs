use zklock::{LockError, zk_locked};

#[zk_locked("order", timeout = "0s")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
