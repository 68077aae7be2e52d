use zklock::{LockError, zk_locked};

#[zk_locked("order", condition = id)]
async fn guarded(_id: u32, id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
