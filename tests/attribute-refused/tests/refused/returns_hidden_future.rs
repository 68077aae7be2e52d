use zklock::{LockError, zk_locked};

#[zk_locked("order")]
fn guarded() -> impl Future<Output = Result<(), LockError>> {
    work()
}

async fn work() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
