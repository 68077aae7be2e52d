use std::pin::Pin;

use zklock::{LockError, zk_locked};

type Work = Pin<Box<dyn Future<Output = Result<u32, LockError>>>>;

macro_rules! unwrap_or {
    ($option:expr, $otherwise:expr) => {
        match $option {
            Some(value) => value,
            None => $otherwise,
        }
    };
    ($option:expr => $otherwise:expr) => {
        unwrap_or!($option, $otherwise)
    };
}

fn work() -> Work {
    Box::pin(async { Ok(1) })
}

#[zk_locked("order")]
fn in_a_value(cached: Option<u32>) -> Work {
    let cached = unwrap_or!(cached, return Box::pin(work()));
    Box::pin(async move { Ok(cached) })
}

#[zk_locked("order")]
fn in_other_words(cached: Option<u32>) -> Work {
    let cached = unwrap_or!(cached => return work());
    Box::pin(async move { Ok(cached) })
}

#[zk_locked("order")]
fn of_its_own(cached: Option<u32>) -> Work {
    let of_a_block = unwrap_or!(Some(async { return 1 }), loop {});
    let of_a_closure = unwrap_or!(cached.map(|cached| { return cached }), 0);
    Box::pin(async move { Ok(of_a_block.await + of_a_closure) })
}

fn main() {
    let _ = (in_a_value(None), in_other_words(None), of_its_own(None));
}
