use zklock::{LockError, zk_locked};

#[derive(Debug)]
struct Tickets;

#[zk_locked("order", driver = Tickets)]
async fn guarded() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
