use zklock::{LockError, layout::Kazoo, zk_locked};

#[zk_locked("order", driver = layout)]
async fn guarded(layout: Kazoo) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
