use zklock::{LockError, zk_locked};

#[zk_locked("order", on_lost = cancel)]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
