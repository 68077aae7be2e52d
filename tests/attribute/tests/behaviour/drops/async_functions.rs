//! `async fn`: parameters, locals and temporaries.

use zklock::{LockError, events::Noisy};

use super::{
    Around, ENDS, End, Fields, Tuple, Unit, compare_async, compare_cancelled, failure, twins,
};
use crate::support::pause;

mod parameters {
    use super::{End, LockError, Noisy, failure, pause, twins};

    type Three = (Noisy, Noisy, Noisy);

    twins! {
        #[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]
        pub(crate) async fn run(
            used: Noisy,
            _unused: Noisy,
            _: Noisy,
            (left, ..): Three,
            ref by_ref: Noisy,
            mut mutable: Noisy,
            end: End,
        ) -> Result<&'static str, LockError> {
            let _local = Noisy("local");
            mutable.0 = "mutated";
            pause().await;
            let result = 'block: {
                let _inner = Noisy("inner");
                Noisy("temporary").later().await;
                match end {
                    End::Tail => Noisy("arm").name(),
                    End::Question => {
                        failure()?;
                        "never"
                    }
                    End::Return => return Ok(Noisy("returned").name()),
                    End::Break => break 'block Noisy("broken").name(),
                    End::Panic => panic!("as asked"),
                }
            };
            zklock::events::record(result);
            drop(used);
            let _moved = left;
            pause().await;
            Ok(Noisy(by_ref.name()).name())
        }
    }

    pub(super) fn call<T>(
        run: impl FnOnce(Noisy, Noisy, Noisy, Three, Noisy, Noisy, End) -> T,
        end: End,
    ) -> T {
        let three = (Noisy("left"), Noisy("middle"), Noisy("right"));
        let (by_ref, mutable) = (Noisy("by_ref"), Noisy("mutable"));
        run(Noisy("used"), Noisy("unused"), Noisy("wild"), three, by_ref, mutable, end)
    }
}

#[test]
fn parameters_and_locals_drop_before_the_release_however_the_body_ends() {
    for end in ENDS {
        let plain = || parameters::call(parameters::plain::run, end);
        let guarded = || parameters::call(parameters::guarded::run, end);
        compare_async(plain, guarded);
        if !matches!(end, End::Panic) {
            compare_cancelled(plain, guarded);
        }
    }
}

mod receiver {
    use super::{LockError, Noisy, pause};

    pub(super) struct Owner {
        pub(super) read: Noisy,
        pub(super) unread: Noisy,
    }

    impl Owner {
        pub(super) async fn plain(self, other: Noisy) -> Result<usize, LockError> {
            let _local = Noisy("local");
            pause().await;
            Ok(self.read.name().len() + other.name().len())
        }

        #[zklock::zk_locked("twin")]
        pub(super) async fn guarded(self, other: Noisy) -> Result<usize, LockError> {
            let _local = Noisy("local");
            pause().await;
            Ok(self.read.name().len() + other.name().len())
        }

        pub(super) async fn plain_move(self, other: Noisy) -> Result<usize, LockError> {
            let moved = self.read;
            pause().await;
            Ok(moved.name().len() + other.name().len())
        }

        #[zklock::zk_locked("twin")]
        pub(super) async fn guarded_move(self, other: Noisy) -> Result<usize, LockError> {
            let moved = self.read;
            pause().await;
            Ok(moved.name().len() + other.name().len())
        }
    }

    pub(super) fn owner() -> Owner {
        Owner { read: Noisy("read"), unread: Noisy("unread") }
    }
}

#[test]
fn self_by_value_drops_whole_before_the_release() {
    let other = || Noisy("other");
    let owner = receiver::owner;
    assert_eq!(owner().unread.name(), "unread");
    compare_async(|| owner().plain(other()), || owner().guarded(other()));
    compare_cancelled(|| owner().plain(other()), || owner().guarded(other()));
    compare_async(|| owner().plain_move(other()), || owner().guarded_move(other()));
    compare_cancelled(|| owner().plain_move(other()), || owner().guarded_move(other()));
}

mod temporary {
    use super::{LockError, Noisy, pause, twins};

    twins! {
        pub(crate) async fn run(parameter: Noisy) -> Result<usize, LockError> {
            let _local = Noisy("local");
            pause().await;
            Ok(Noisy("tail temporary").name().len() + parameter.name().len())
        }
    }
}

#[test]
fn tail_temporaries_drop_before_the_release() {
    let parameter = || Noisy("parameter");
    compare_async(|| temporary::plain::run(parameter()), || temporary::guarded::run(parameter()));
}

/// Patterns that bind nothing.
mod nothing {
    use super::{Around, Fields, LockError, Tuple, Unit, pause, twins};

    twins! {
        pub(crate) async fn run(
            Unit: Unit,
            Tuple(): Tuple,
            Fields {}: Fields,
            Around(Unit): Around,
        ) -> Result<(), LockError> {
            pause().await;
            zklock::events::record("body");
            Ok(())
        }
    }
}

#[test]
fn parameters_of_which_nothing_is_bound_drop_once_and_before_the_release() {
    let plain = || nothing::plain::run(Unit, Tuple(), Fields {}, Around(Unit));
    let guarded = || nothing::guarded::run(Unit, Tuple(), Fields {}, Around(Unit));
    compare_async(plain, guarded);
    compare_cancelled(plain, guarded);
}
