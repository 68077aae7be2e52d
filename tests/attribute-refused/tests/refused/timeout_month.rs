use zklock::{LockError, zk_locked};

#[zk_locked("order", timeout = "1M")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
