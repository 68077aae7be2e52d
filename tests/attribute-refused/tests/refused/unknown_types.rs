use zklock::{LockError, zk_locked};

#[zk_locked("order")]
async fn guarded(id: Missing) -> Result<Absent, LockError> {
    Ok(id.into())
}

fn main() {}
