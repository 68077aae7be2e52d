use zklock::{LockError, zk_locked};

#[zk_locked("order")]
fn guarded(cached: bool) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, LockError>>>> {
    if cached {
        return Box::pin(std::future::ready(Ok(1)));
    }
    let _closure = || {
        return 1;
    };
    Box::pin(async move { Ok(2) })
}

fn main() {
    let _ = guarded(true);
}
