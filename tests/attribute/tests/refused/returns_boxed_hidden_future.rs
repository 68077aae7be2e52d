use zklock::{LockError, zk_locked};

use std::pin::Pin;

#[zk_locked("order")]
fn guarded() -> Result<Pin<Box<dyn Future<Output = ()>>>, LockError> {
    Ok(Box::pin(async {}))
}

fn main() {
    let _ = guarded();
}
