use zklock::{LockError, zk_locked};

#[zk_locked("order", warn_waiting = 15)]
async fn without_unit() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", warn_holding = "0s")]
async fn at_once() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
