use zklock::{LockError, zk_locked};

#[zk_locked("order", label = 7)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", label = "")]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", label = "of {order}")]
async fn of_nobody(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[zk_locked("order", label = id)]
async fn of_another_type(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[zk_locked("order", purpose = "import")]
async fn by_another_word() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
