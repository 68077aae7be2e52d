use zklock::{LockError, zk_locked};

#[zk_locked("order", map_err = "ApiError")]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", map_err = skip)]
fn skipping() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("order", map_err)]
fn without_value() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
