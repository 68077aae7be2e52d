//! Those who ask once for permits, beside others of their process.

use std::time::Duration;

use futures_lite::future::zip;

use crate::rules;
use crate::workload::task::Task;

const WAIT: Duration = Duration::from_secs(2);

/// How many permits there are.
const LIMIT: u32 = 3;

/// Longer than answers take, in microseconds.
const LONG: u64 = 100_000;

impl Task {
    /// Of two free permits one is for who asks once, although somebody else of its process asks once for more.
    pub(in crate::workload) async fn ask_once(&self) {
        let name = format!("once-{}", self.process.world().unique());
        let Some((session, label)) = self.another_session() else { return };
        let (Ok(theirs), Ok(lock)) =
            (session.semaphore(&*name, LIMIT), self.session.semaphore(&*name, LIMIT))
        else {
            return;
        };
        drop(lock.acquire_timeout(WAIT).await);
        let held = theirs.acquire_timeout(WAIT).await;
        // Somebody elsewhere may be about to count them, whom all of this process wait for.
        let counts = async {
            if self.choose(2) == 1
                && let Ok(guard) = theirs.acquire_timeout(WAIT).await
            {
                drop(guard.release().await);
            }
        };
        let all = async {
            self.sleep(u64::from(self.choose(4)) * 500).await;
            self.say(|| "asks once for all".to_owned());
            let answer = lock.try_acquire_many(LIMIT).await;
            self.say(|| format!("has all: {}", answer.is_ok()));
            answer
        };
        let one = async {
            self.sleep(u64::from(self.choose(4)) * 500 + 1).await;
            self.say(|| "asks once for one".to_owned());
            let began = self.process.world().now();
            let answer = lock.try_acquire().await;
            (answer, self.process.world().now() - began)
        };
        let (_, (all, (one, took))) = zip(counts, zip(all, one)).await;
        if let (Ok(held), Err(error)) = (&held, &one)
            && held.is_valid()
            && all.is_err()
            && error.is_busy()
            // Otherwise an answer is missing, so that somebody elsewhere counts them for long.
            && took < LONG
        {
            let what = format!("{}: one of {LIMIT} is held: {error:#}", self.name);
            self.crew.ledger.fail(rules::BUSY, what);
        }
        drop((all, one));
        if let Ok(held) = held {
            drop(held.release().await);
        }
        self.close(session, label).await;
    }
}
