use zklock::{LockError, zk_locked};

#[derive(Debug)]
struct ApiError(LockError);

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        ApiError(error)
    }
}

#[zk_locked("order", on_error = ApiError::from)]
async fn path() -> Result<u32, ApiError> {
    Ok(1)
}

#[zk_locked("order", on_error = ApiError)]
fn constructor() -> Result<u32, ApiError> {
    Ok(1)
}

#[zk_locked("order", on_error = |error| ApiError(error))]
async fn closure() -> Result<u32, ApiError> {
    Ok(1)
}

#[zk_locked("order", on_busy = ApiError::from)]
async fn busy() -> Result<u32, ApiError> {
    Ok(1)
}

fn main() {}
