use zklock::{LockError, zk_locked};

#[zk_locked(order)]
fn guarded(order: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
