use zklock::{LockError, zk_locked};

fn spawn(_: impl Future + Send) {}

#[zk_locked("order")]
async fn guarded() -> Result<(), LockError> {
    let shared = std::rc::Rc::new(());
    std::future::ready(()).await;
    drop(shared);
    Ok(())
}

fn main() {
    spawn(guarded());
}
