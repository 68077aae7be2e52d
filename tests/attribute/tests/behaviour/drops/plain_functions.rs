//! Plain functions: parameters, locals and temporaries.

use zklock::{LockError, events::Noisy};

use super::{Around, ENDS, End, Fields, Tuple, Unit, compare, failure, twins};

mod parameters {
    use super::{End, LockError, Noisy, failure, twins};

    type Three = (Noisy, Noisy, Noisy);

    twins! {
        #[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]
        pub(crate) fn run(
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
            let result = 'block: {
                let _inner = Noisy("inner");
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
        compare(plain, guarded);
    }
}

struct Owner {
    read: Noisy,
    _unread: Noisy,
}

impl Owner {
    fn new() -> Self {
        Self { read: Noisy("read"), _unread: Noisy("unread") }
    }

    fn plain(self, other: Noisy) -> Result<usize, LockError> {
        let _local = Noisy("local");
        drop(other);
        let moved = self.read;
        Ok(moved.name().len())
    }

    #[zklock::zk_locked("twin")]
    fn guarded(self, other: Noisy) -> Result<usize, LockError> {
        let _local = Noisy("local");
        drop(other);
        let moved = self.read;
        Ok(moved.name().len())
    }
}

#[test]
fn self_by_value_drops_whole_before_the_release() {
    compare(|| Owner::new().plain(Noisy("other")), || Owner::new().guarded(Noisy("other")));
}

mod temporary {
    use super::{LockError, Noisy, twins};

    twins! {
        #[allow(clippy::needless_pass_by_value)]
        pub(crate) fn run(parameter: Noisy) -> Result<usize, LockError> {
            let _local = Noisy("local");
            Ok(Noisy("tail temporary").name().len() + parameter.name().len())
        }
    }
}

#[test]
fn tail_temporaries_drop_before_the_release() {
    let parameter = || Noisy("parameter");
    compare(|| temporary::plain::run(parameter()), || temporary::guarded::run(parameter()));
}

/// Patterns that bind nothing.
mod nothing {
    use super::{Around, Fields, LockError, Tuple, Unit, twins};

    twins! {
        pub(crate) fn run(
            Unit: Unit,
            Tuple(): Tuple,
            Fields {}: Fields,
            Around(Unit): Around,
        ) -> Result<(), LockError> {
            zklock::events::record("body");
            Ok(())
        }
    }
}

#[test]
fn parameters_of_which_nothing_is_bound_drop_once_and_before_the_release() {
    let plain = || nothing::plain::run(Unit, Tuple(), Fields {}, Around(Unit));
    let guarded = || nothing::guarded::run(Unit, Tuple(), Fields {}, Around(Unit));
    compare(plain, guarded);
}
