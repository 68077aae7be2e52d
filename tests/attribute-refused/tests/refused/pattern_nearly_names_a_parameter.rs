use zklock::{LockError, zk_locked};

#[zk_locked("order-{orderid}")]
fn guarded(order_id: u32, user: &str) -> Result<(), LockError> {
    let _ = (order_id, user);
    Ok(())
}

fn main() {
    let _ = guarded(1, "");
}
