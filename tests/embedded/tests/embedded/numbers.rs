//! Sequence numbers at their end: nobody holds a lock with one, and the error says what to do.

use std::time::Duration;

use zklock::layout::{Curator, Kazoo, Numbered, Removed};
use zklock::{ErrorKind, LockOptions, Mutex};

use crate::layouts::Tickets;
use crate::support::{client, contenders, on, store};

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

/// Only a container is removed by itself.
#[tokio::test]
async fn the_cure_where_the_directory_stays_is_to_delete_it() {
    type Chosen = fn(Mutex) -> Mutex;
    let cases: [(Chosen, &str); 6] = [
        (|mutex| mutex, "let its directory become empty"),
        (|mutex| mutex.with_driver(Removed::after(Curator)), "let its directory become empty"),
        (
            |mutex| mutex.with_driver(Removed::after(Kazoo::default())),
            "let its directory become empty",
        ),
        (|mutex| mutex.with_driver(Kazoo::default()), "stop all its users"),
        (|mutex| mutex.with_driver(Numbered::dlock()), "stop all its users"),
        (
            |mutex| mutex.with_options(LockOptions::new().lock_delay(Duration::from_secs(1))),
            "stop all its users",
        ),
    ];
    for (chosen, cure) in cases {
        let (store, session) = store();
        let held = chosen(session.mutex("a").unwrap()).acquire().await.unwrap();
        store.set_sequence("/zklock/a", i32::MAX - 1).unwrap();
        let mutex = chosen(on(&store).mutex("a").unwrap());
        let error = mutex.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        let text = format!("{error:#}");
        assert!(text.contains(cure) && text.contains("/zklock/a"), "{text}");
        held.release().await.unwrap();
        assert!(contenders(&store, "/zklock/a").await.is_empty());
        // Some were removed by now.
        drop(client(&store).await.delete("/zklock/a").await);
        drop(mutex.acquire().await.unwrap());
    }
}
