//! Is compiled: otherwise a crate that cannot be read would look like a mistake that is refused.
use std::pin::Pin;

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

trait Tower {
    type Future;
    fn call(&mut self) -> Self::Future;
}

impl Tower for Shop {
    type Future = Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>>;

    #[zk_locked("order")]
    fn call(&mut self) -> Self::Future {
        Box::pin(async move { Ok(7) })
    }
}

#[tokio::main(flavor = "current_thread")]
#[tracing::instrument]
async fn main() {
    drop(Shop.create(7).await);
}
