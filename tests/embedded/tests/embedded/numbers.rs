//! Sequence numbers at their end: nobody holds a lock with one, and the error says what to do.

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::{ErrorKind, Mode};

use crate::support::{contenders, store};

/// The driver of the documentation.
#[derive(Debug)]
struct Tickets;

impl LockDriver for Tickets {
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("ticket-{}-", attempt.simple())
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let attempt = name.strip_prefix("ticket-")?;
        Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
    }
}

/// Without its sign such a number is one that may be held, and the lower of two would be the later one.
#[tokio::test]
async fn a_number_past_the_end_is_refused_where_names_have_a_hyphen_before_it() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(Tickets);
    mutex.acquire().await.unwrap().release().await.unwrap();
    for past in [i32::MIN, -2_146_435_071, -2_146_435_070, -1_000_000_000, -999_999_999, -1] {
        store.set_sequence("/zklock/a", past).unwrap();
        let error = mutex.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{past}: {error}");
        assert!(contenders(&store, "/zklock/a").await.is_empty(), "{past}");
    }
}
