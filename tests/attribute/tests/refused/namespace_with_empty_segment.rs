use zklock::{LockError, zk_locked};

#[zk_locked("order", namespace = "shop/")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
