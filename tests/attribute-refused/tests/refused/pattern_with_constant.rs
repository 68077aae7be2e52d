use zklock::{LockError, zk_locked};

mod shop {
    pub const ID: u32 = 7;
}

struct Orders;

impl Orders {
    const TENANT: &str = "billing";

    #[zk_locked("orders/{Self::TENANT}/{id}")]
    fn of_a_type(&self, id: u32) -> Result<(), LockError> {
        let _ = (id, Self::TENANT);
        Ok(())
    }
}

#[zk_locked("orders/{shop::ID}", label = "shop {shop::ID}")]
fn of_a_module() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = (Orders.of_a_type(shop::ID), of_a_module());
}
