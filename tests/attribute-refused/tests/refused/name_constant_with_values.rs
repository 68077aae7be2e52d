use zklock::{LockError, zk_locked};

const ORDERS: &str = "orders/{id}";

#[zk_locked(ORDERS)]
fn guarded(_id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
