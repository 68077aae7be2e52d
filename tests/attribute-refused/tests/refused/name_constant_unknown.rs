use zklock::{LockError, zk_locked};

#[zk_locked(ORDERS)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
