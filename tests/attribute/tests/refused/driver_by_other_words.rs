use zklock::{LockError, zk_locked};

#[zk_locked("order", layout = zklock::layout::Kazoo::default(), drvier = 1)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
