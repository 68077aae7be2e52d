use zklock::{LockError, zk_locked};

#[zk_locked("order", permits = 3, lock_type = read, read, keys = [1, 2])]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
