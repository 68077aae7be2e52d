use zklock::{LockError, zk_locked};

#[zk_locked("order")]
const fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
