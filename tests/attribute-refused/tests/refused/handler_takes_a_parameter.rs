use zklock::{LockError, zk_locked};

#[zk_locked("order", on_busy = |_| Ok(request.len()))]
async fn guarded(request: String) -> Result<usize, LockError> {
    Ok(request.len())
}

fn main() {}
