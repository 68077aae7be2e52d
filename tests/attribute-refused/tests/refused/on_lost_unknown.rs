use zklock::{LockError, zk_locked};

#[zk_locked("order", on_lost = finsh)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
