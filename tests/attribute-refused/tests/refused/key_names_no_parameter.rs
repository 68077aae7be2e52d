use zklock::{LockError, zk_locked};

#[zk_locked("order", key = order.id)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
