use zklock::{LockError, zk_locked};

const ORDERS: u32 = 1;

#[zk_locked("order", session = ORDERS)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
