use zklock::{LockError, zk_locked};

#[zk_locked("order")]
async fn guarded(id: u32) -> Result<String, LockError> {
    if id == 0 {
        return Ok(1);
    }
    Ok(id)
}

#[zk_locked("order")]
fn guarded_sync(id: u32) -> Result<String, LockError> {
    if id == 0 {
        return Ok(1);
    }
    Ok(id)
}

#[zk_locked("order")]
async fn forgotten(id: u32) -> Result<u32, LockError> {
    Ok(id);
}

fn main() {}
