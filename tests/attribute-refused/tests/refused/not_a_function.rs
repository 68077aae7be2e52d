use zklock::{LockError, zk_locked};

#[zk_locked("order")]
struct Order;

#[zk_locked("orders")]
impl Order {
    fn create(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {
    let _ = Order.create();
}
