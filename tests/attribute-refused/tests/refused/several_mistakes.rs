use zklock::{LockError, zk_locked};

#[zk_locked("order-{od}-{", timout = "2s", retries = 0, timeout = "2", retries = 1)]
const fn guarded(id: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded(1);
}
