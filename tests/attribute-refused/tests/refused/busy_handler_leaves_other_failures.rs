use zklock::zk_locked;

#[zk_locked("order", on_busy = |_| 0)]
async fn guarded() -> u32 {
    1
}

fn main() {}
