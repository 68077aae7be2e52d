use zklock::{LockError, zk_locked};

struct User;

struct Order {
    user: User,
}

#[zk_locked("order-{order.user}")]
async fn guarded(order: Order) -> Result<(), LockError> {
    let _ = order.user;
    Ok(())
}

fn main() {
    let _ = guarded(Order { user: User });
}
