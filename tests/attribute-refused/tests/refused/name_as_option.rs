use zklock::{LockError, zk_locked};

#[zk_locked(name = "order")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked(lock = "order")]
fn lock() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked(lockName = "order")]
fn lock_name() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked(path = "order")]
fn path() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked(value = "order")]
fn value() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = (guarded(), lock(), lock_name(), path(), value());
}
