use zklock::{LockError, zk_locked};

#[zk_locked("order", options = "fair")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", options = zklock::LockOptions)]
async fn of_the_type() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", options = zklock::LockOptions::new(), options = zklock::LockOptions::new())]
async fn twice() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", with_options = zklock::LockOptions::new())]
async fn by_another_word() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
