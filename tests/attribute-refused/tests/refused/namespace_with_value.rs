use zklock::{LockError, zk_locked};

#[zk_locked("order", namespace = "shop-{id}")]
async fn guarded(_id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
