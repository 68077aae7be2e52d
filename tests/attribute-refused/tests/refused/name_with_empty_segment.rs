use zklock::{LockError, zk_locked};

#[zk_locked("orders//create")]
fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
