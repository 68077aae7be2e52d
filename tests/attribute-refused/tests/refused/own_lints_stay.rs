#![deny(unused)]

use zklock::{LockError, zk_locked};

#[zk_locked("order")]
pub async fn guarded(unused: u32, mut unchanged: u32, #[allow(unused)] allowed: u32) -> Result<u32, LockError> {
    let local = 1;
    return Ok(unchanged);
    Ok(2)
}

#[zk_locked("order-{id}")]
pub fn guarded_sync(id: u32, unused: u32, mut unchanged: u32) -> Result<u32, LockError> {
    let local = 1;
    return Ok(unchanged);
    Ok(2)
}

fn main() {}
