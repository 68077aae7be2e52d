use zklock::zk_locked;

#[zk_locked("order")]
async fn guarded() {
    println!("unlocked");
}

fn main() {
    let _ = guarded();
}
