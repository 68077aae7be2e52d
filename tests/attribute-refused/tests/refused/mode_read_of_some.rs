use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = read(3))]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
