use zklock::{LockError, zk_locked};

const N: u8 = 7;

#[zk_locked("order", namespace = N)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
