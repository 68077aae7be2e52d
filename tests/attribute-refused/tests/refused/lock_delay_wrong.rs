use zklock::{LockError, zk_locked};

#[zk_locked("order", lock_delay = 15)]
async fn without_unit() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", lock_delay = "-15s")]
async fn negative() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", lock_delay = "15s", mode = semaphore(3))]
async fn of_a_semaphore() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
