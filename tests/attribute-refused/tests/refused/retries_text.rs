use zklock::{LockError, zk_locked};

#[zk_locked("order", retries = "2")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
