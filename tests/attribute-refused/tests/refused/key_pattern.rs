use zklock::{LockError, zk_locked};

#[zk_locked("order", key = "{id}")]
async fn guarded(_id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
