use zklock::{LockError, zk_locked};

const ORDERS: u32 = 7;

#[zk_locked(ORDERS)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
