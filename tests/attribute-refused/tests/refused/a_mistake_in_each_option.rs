use zklock::{LockError, zk_locked};

#[zk_locked("order/{}", key = 7, on_lost = stop, namespace = true)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
