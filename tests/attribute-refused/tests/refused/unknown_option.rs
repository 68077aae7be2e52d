use zklock::{LockError, zk_locked};

#[zk_locked("order", timout = "2s")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
