use zklock::{LockError, zk_locked};

#[zk_locked("order", driver = zklock::layout::Kazoo)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
