use zklock::{LockError, zk_locked};

#[tokio::test]
#[zk_locked("order")]
async fn test() -> Result<(), LockError> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
#[zk_locked("order")]
async fn main() -> Result<(), LockError> {
    Ok(())
}

