use zklock::{LockError, zk_locked};

#[zk_locked("order", key = a, key = b)]
async fn guarded(a: u8, b: ()) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
