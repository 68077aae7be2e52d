//! Plain functions that return a future, by hand and by `#[async_trait]`.

use std::future::Future;

use zklock::{LockError, events::Noisy};

use super::{ENDS, End, compare_async, compare_cancelled, failure, twins};
use crate::support::pause;

twins! {
    pub(crate) fn run(
        used: Noisy,
        field: (Noisy, Noisy),
        end: End,
    ) -> impl Future<Output = Result<usize, LockError>> {
        async move {
            let _local = Noisy("local");
            pause().await;
            match end {
                End::Tail => {}
                End::Question => failure()?,
                End::Return => return Ok(0),
                End::Break => 'block: {
                    let _inner = Noisy("inner");
                    break 'block;
                },
                End::Panic => panic!("as asked"),
            }
            pause().await;
            Ok(Noisy("tail temporary").name().len() + used.name().len() + field.0.name().len())
        }
    }
}

#[test]
fn what_the_block_takes_drops_before_the_release() {
    for end in ENDS {
        let field = || (Noisy("taken"), Noisy("left"));
        let plain = || plain::run(Noisy("used"), field(), end);
        let guarded = || guarded::run(Noisy("used"), field(), end);
        compare_tail(plain, guarded, end);
    }
}

fn compare_tail<P: Future, G: Future>(plain: impl Fn() -> P, guarded: impl Fn() -> G, end: End) {
    // What the block does not take is dropped when the function returns, before any lock.
    let plain = || super::strip_made(&plain);
    let guarded = || super::strip_made(&guarded);
    compare_async(plain, guarded);
    if !matches!(end, End::Panic) {
        compare_cancelled(plain, guarded);
    }
}

#[async_trait::async_trait]
trait Service {
    async fn run(
        self: Box<Self>,
        used: Noisy,
        _unused: Noisy,
        _: Noisy,
    ) -> Result<usize, LockError>;
}

struct Plain(Noisy, #[allow(dead_code)] Noisy);
struct Guarded(Noisy, #[allow(dead_code)] Noisy);

#[async_trait::async_trait]
impl Service for Plain {
    async fn run(
        self: Box<Self>,
        used: Noisy,
        _unused: Noisy,
        _: Noisy,
    ) -> Result<usize, LockError> {
        let _local = Noisy("local");
        pause().await;
        Ok(self.0.name().len() + used.name().len())
    }
}

#[async_trait::async_trait]
impl Service for Guarded {
    #[zklock::zk_locked("twin")]
    async fn run(
        self: Box<Self>,
        used: Noisy,
        _unused: Noisy,
        _: Noisy,
    ) -> Result<usize, LockError> {
        let _local = Noisy("local");
        pause().await;
        Ok(self.0.name().len() + used.name().len())
    }
}

#[test]
fn async_trait_methods_drop_all_before_the_release() {
    let plain = || {
        let service = Box::new(Plain(Noisy("self.0"), Noisy("self.1")));
        service.run(Noisy("used"), Noisy("unused"), Noisy("wild"))
    };
    let guarded = || {
        let service = Box::new(Guarded(Noisy("self.0"), Noisy("self.1")));
        service.run(Noisy("used"), Noisy("unused"), Noisy("wild"))
    };
    compare_async(plain, guarded);
    compare_cancelled(plain, guarded);
}
