use zklock::{LockError, zk_locked};

#[zk_locked("order", key = a, key = b, key = a)]
async fn guarded(a: u8, b: u8) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
