//! Locks whose directories lie in the directory of another lock: `orders/7` in that of `orders`.
//!
//! A child whose name is not that of a contender is ignored. If the name of the nested lock looks
//! like a contender's, the directory is recognised by two facts: it belongs to no session, and it
//! has had children, which no contender has. Both come with the requests about the contender ahead
//! that are sent anyway, so this costs nothing.
//!
//! Other clients may count such children all the same. Curator's mutex counts every child, and
//! waits until a directory that sorts before its own number is gone.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::base::mode::Mode;
use crate::base::unharmed::unharmed;
use crate::coordinator::node::{NodeKind, Stat};
use crate::layout::contender::Contender;
use crate::layout::driver::LockDriver;

/// How many pairs of locks are remembered as logged. Nobody reads more.
const MOST_TOLD: usize = 1000;

static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Whether a node in a lock's queue is the directory of another lock, although its name looks like
/// a contender's. Never in a layout in which every child counts, or all contenders use one name.
pub fn is_other_lock(driver: &dyn LockDriver, mode: Mode, stat: &Stat) -> bool {
    may_be_other_lock(driver, mode) && stat.ephemeral_owner == 0 && stat.cversion != 0
}

/// Whether a node in such a queue can be the directory of another lock at all.
pub fn may_be_other_lock(driver: &dyn LockDriver, mode: Mode) -> bool {
    mode != Mode::Permit && driver.kind() == NodeKind::EphemeralSequential
}

/// The children that are not contenders, but that other clients count as if they were ahead of this
/// one.
pub fn counted_by_others<'a>(
    driver: &'a dyn LockDriver,
    children: &'a [String],
    before: &'a Contender,
) -> impl Iterator<Item = &'a str> {
    let counted = |child: &&String| {
        driver.is_counted_by_others(child, before) && driver.parse(child).is_none()
    };
    children.iter().filter(counted).map(String::as_str)
}

/// Whether a pair of locks was not logged yet. It is noted.
fn is_news(inner: &str) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.get_or_insert_default();
    told.len() < MOST_TOLD && told.insert(inner.to_owned())
}

/// Logs the children that other clients count ahead of this contender, each of them once.
pub fn tell(driver: &dyn LockDriver, directory: &str, children: &[String], before: &Contender) {
    for child in counted_by_others(driver, children, before) {
        let inner = format!("{directory}/{child}");
        // Not under the lock: a subscriber may do anything, acquire a lock for instance.
        if is_news(&inner) {
            unharmed(|| {
                tracing::warn!(
                    lock = directory,
                    inner,
                    "a child of the lock's directory is not a contender, perhaps it is the directory \
                 of another lock; zklock ignores it, but a Curator lock waits until it is gone: \
                 choose lock names of which none is the beginning of another"
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{self, Write as _};
    use std::sync::Arc;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::layout::{Curator, Kazoo};

    #[derive(Clone, Default)]
    struct Ear(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, "{field}={value:?} ").unwrap();
        }
    }

    impl Subscriber for Ear {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string() + " ");
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// A subscriber that acquires a lock for each line, as one that writes to a guarded place.
    struct Acquires;

    impl Subscriber for Acquires {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            let mine = Curator.parse("_c_x-lock-0000000007").unwrap();
            tell(&Curator, "/zklock/inside", &["0".to_owned()], &mine);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn whoever_collects_what_is_logged_may_acquire_a_lock() {
        let (tell_end, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mine = Curator.parse("_c_x-lock-0000000007").unwrap();
            tracing::subscriber::with_default(Acquires, || {
                tell(&Curator, "/zklock/outside", &["0".to_owned()], &mine);
            });
            tell_end.send(()).unwrap();
        });
        end.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_pair_of_locks_is_told_once_with_both_names_where_others_stumble() {
        let ear = Ear::default();
        let heard = || std::mem::take(&mut *ear.0.lock().unwrap());
        let mine = Curator.parse("_c_x-lock-0000000007").unwrap();
        let children = ["_c_x-lock-0000000007", "0", "-5", "create", "007"].map(str::to_owned);
        let say = |directory| tell(&Curator, directory, &children, &mine);
        tracing::subscriber::with_default(ear.clone(), || {
            say("/zklock/told");
            let lines = heard();
            assert_eq!(lines.len(), 2, "{lines:?}");
            for child in ["0", "-5"] {
                let both = format!(r#"lock="/zklock/told" inner="/zklock/told/{child}""#);
                let told =
                    lines.iter().any(|line| line.starts_with("WARN") && line.contains(&both));
                assert!(told, "{both}: {lines:?}");
            }
            say("/zklock/told");
            assert_eq!(heard(), [""; 0]);
            say("/zklock/another");
            assert_eq!(heard().len(), 2);
            // kazoo looks at names.
            let mine = Kazoo::default().parse("x__lock__0000000007").unwrap();
            tell(&Kazoo::default(), "/zklock/kazoo", &children, &mine);
            assert_eq!(heard(), [""; 0]);
        });
    }
}
