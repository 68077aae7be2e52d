use std::pin::Pin;

use zklock::{LockError, zk_locked};

#[zk_locked("order")]
async fn guarded() -> Result<Pin<Box<dyn Future<Output = u32> + Send>>, LockError> {
    Ok(Box::pin(async { 1 }))
}

fn main() {
    let _ = guarded();
}
