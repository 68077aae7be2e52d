use zklock::{LockError, zk_locked};

#[derive(Debug)]
struct ApiError(LockError);

#[zk_locked("order", on_error = |error| Err(ApiError(error)), map_err = ApiError)]
async fn guarded() -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
