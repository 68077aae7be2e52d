use zklock::{LockError, zk_locked};

#[zk_locked("order", mode = read, mode = write)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
