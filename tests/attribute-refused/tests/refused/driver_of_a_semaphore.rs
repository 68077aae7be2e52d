use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = semaphore(3), driver = zklock::layout::Kazoo::default())]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
