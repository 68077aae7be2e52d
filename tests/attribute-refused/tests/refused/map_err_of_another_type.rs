use zklock::{LockError, zk_locked};

#[derive(Debug)]
struct ApiError(LockError);

fn respond(error: LockError) -> Result<(), ApiError> {
    Err(ApiError(error))
}

#[zk_locked("order", map_err = respond)]
async fn path() -> Result<(), ApiError> {
    Ok(())
}

#[zk_locked("order", map_err = |error| error)]
fn closure() -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
