use zklock::zk_locked;

#[zk_locked("order")]
async fn guarded() -> Result<(), std::fmt::Error> {
    Ok(())
}

fn main() {
    let _ = guarded();
}
