use zklock::{LockError, zk_locked};

#[zk_locked("number", on_busy = skip)]
async fn number() -> u32 {
    1
}

#[zk_locked("order", on_busy = skip)]
async fn order() -> Result<u32, LockError> {
    Ok(1)
}

fn main() {}
