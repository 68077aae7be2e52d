use zklock::{LockError, zk_locked};

#[zk_locked("accounts/{from}")]
#[zk_locked("accounts/{to}")]
async fn guarded(from: u32, to: u32) -> Result<u32, LockError> {
    Ok(from + to)
}

#[zklock::zk_locked("accounts/{from}")]
#[inline]
#[zklock::zk_locked("accounts/{to}")]
fn plain(from: u32, to: u32) -> Result<u32, LockError> {
    Ok(from + to)
}

fn main() {
    let _ = (guarded(1, 2), plain(1, 2));
}
