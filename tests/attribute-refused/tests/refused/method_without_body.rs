use zklock::{LockError, zk_locked};

trait Store {
    #[zk_locked("order")]
    async fn create(&self) -> Result<(), LockError>;
}

fn main() {}
