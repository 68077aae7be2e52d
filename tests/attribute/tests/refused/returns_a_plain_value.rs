use zklock::zk_locked;

#[zk_locked("order")]
fn guarded(id: u32) -> Option<u32> {
    Some(id)
}

fn main() {
    let _ = guarded(1);
}
