use zklock::zk_locked;

#[zk_locked("order", map_err = |error| error.to_string())]
async fn guarded() -> u32 {
    1
}

#[zk_locked("order", map_err = drop)]
fn plain() -> Option<u32> {
    None
}

fn main() {}
