use std::pin::Pin;

use zklock::{LockError, zk_locked};

type Work = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

#[zk_locked("accounts/{account}")]
fn changed(account: String) -> Work {
    let account = account.to_lowercase();
    Box::pin(async move {
        drop(account);
        Ok(())
    })
}

#[zk_locked("accounts", key = from, key = to)]
fn exchanged(from: u64, to: u64) -> impl Future<Output = Result<(), LockError>> {
    let (from, to) = (to, from);
    async move {
        let _ = (from, to);
        Ok(())
    }
}

#[zk_locked("accounts", label = "for {account}")]
fn later(account: u64) -> Work {
    let account: u64;
    account = 7;
    Box::pin(async move {
        let _ = account;
        Ok(())
    })
}

fn main() {}
