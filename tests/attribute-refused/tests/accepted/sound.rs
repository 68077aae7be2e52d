//! Is compiled: otherwise a crate that cannot be read would look like a mistake that is refused.
use zklock::{LockError, zk_locked};

#[async_trait::async_trait]
trait Orders {
    async fn create(&self, id: u64) -> Result<u64, LockError>;
}

struct Shop;

#[async_trait::async_trait]
impl Orders for Shop {
    #[zk_locked("order/{id}")]
    async fn create(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[tokio::main(flavor = "current_thread")]
#[tracing::instrument]
async fn main() {
    drop(Shop.create(7).await);
}
