use zklock::{LockError, zk_locked};

struct Shop;

#[async_trait::async_trait]
trait Service {
    async fn order(&self) -> Result<(), LockError>;
}

#[zk_locked("order")]
#[async_trait::async_trait]
impl Service for Shop {
    async fn order(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
