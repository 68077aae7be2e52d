use zklock::{LockError, zk_locked};

#[zk_locked("order", waitTime = 5, lease_time = "5s", failStrategy = ignore, skip)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
