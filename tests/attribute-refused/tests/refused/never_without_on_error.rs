use zklock::zk_locked;

#[zk_locked("daemon")]
async fn daemon() -> ! {
    loop {
        std::future::pending::<()>().await;
    }
}

fn main() {}
