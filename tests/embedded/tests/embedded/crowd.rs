//! What a long queue costs who looks at it. Calls of the driver are counted, never time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::layout::Curator;
use zklock::{Embedded, Mode, Session};
use zklock_core::coordinator::traits::NodeKind;
use zklock_core::layout::verdict::Verdict;

use crate::support::client;

/// Curator's layout, which counts how often it is asked who holds.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl LockDriver for Counting {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        self.0.fetch_add(1, Ordering::Relaxed);
        Curator.verdict(queue, mine)
    }
}

#[tokio::test]
async fn a_long_queue_is_listed_and_revoked_with_few_questions() {
    for count in [500, 4_000] {
        let (store, driver) = (Embedded::new(), Counting::default());
        let session = Session::embedded_builder(&store).driver(driver.clone()).open().unwrap();
        let client = client(&store).await;
        for path in ["/zklock", "/zklock/a"] {
            client.create(path, b"", NodeKind::Persistent).await.unwrap();
        }
        for _ in 0..count {
            let path = format!("/zklock/a/{}", Curator.prefix(&Attempt::new(), Mode::Mutex));
            client.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap();
        }
        let site = session.site("a").unwrap();
        let queue = site.contenders().await.unwrap();
        let holders: Vec<_> = queue.iter().map(|one| one.holder).collect();
        assert_eq!((holders.len(), holders[0]), (count, true));
        assert!(!holders[1..].contains(&true));
        assert_eq!(site.revoke().await.unwrap(), 1);
        let asked = driver.0.load(Ordering::Relaxed);
        assert!(asked <= 40, "{asked} questions about {count} nodes");
    }
}
