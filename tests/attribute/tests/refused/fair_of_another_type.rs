use zklock::{LockError, zk_locked};

const N: u8 = 7;

#[zk_locked("order", fair = N)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
