use zklock::{LockError, zk_locked};

#[zk_locked(name = "order")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
