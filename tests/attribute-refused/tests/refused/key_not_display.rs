use zklock::{LockError, zk_locked};

#[zk_locked("order", key = id)]
async fn guarded(id: Vec<u8>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
