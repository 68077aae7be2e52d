use zklock::LockError;
use zklock::zk_locked as locked;

#[cfg_attr(all(), locked("accounts/{from}"))]
#[cfg_attr(all(), locked("accounts/{to}"))]
async fn guarded(from: u32, to: u32) -> Result<u32, LockError> {
    Ok(from + to)
}

#[locked("outer")]
#[tracing::instrument]
#[locked("inner")]
async fn instrumented() -> Result<u32, LockError> {
    Ok(1)
}

#[async_trait::async_trait]
trait Service {
    async fn create(&self) -> Result<u32, LockError>;
}

#[async_trait::async_trait]
impl Service for u32 {
    #[locked("orders")]
    #[locked("stock")]
    async fn create(&self) -> Result<u32, LockError> {
        Ok(1)
    }
}

fn main() {
    let _ = (guarded(1, 2), instrumented());
}
