//! Locks with two holders, some of whom let them linger.

use std::time::Duration;

use zklock::layout::{Curator, MaxLeases};
use zklock_core::base::options::LockOptions;

use crate::rules;
use crate::workload::task::Task;

/// How many hold it at a time.
const MOST: usize = 2;

/// How long those wait who do not ask once.
const WAIT: Duration = Duration::from_millis(500);

/// How long it takes to delete a node at most, in microseconds.
const DELETED: u64 = 100_000;

/// How long it is kept by some.
const LINGER: Duration = Duration::from_secs(5);

impl Task {
    pub(in crate::workload) async fn share_with_few(&self) {
        let (Ok(lock), Ok(driver)) = (self.session.mutex("few"), MaxLeases::new(MOST, Curator))
        else {
            return;
        };
        let (lock, how) = (lock.with_driver(driver), self.choose(3));
        let options = LockOptions::default().timeout(WAIT).retries(1);
        let began = self.process.world().now();
        let call = self.crew.together.calls("few");
        let answer = match how {
            0 => lock.with_options(options.linger(LINGER)).acquire_tries().await,
            1 => lock.with_options(options).acquire_tries().await,
            _ => lock.try_acquire().await,
        };
        match answer {
            Ok(guard) => {
                self.say(|| format!("has {}, {how}", guard.node_path()));
                self.sleep(self.short() * 4).await;
                self.say(|| format!("lets go of {}", guard.node_path()));
                drop(guard.release().await);
            }
            // Those who let it linger are in nobody's way.
            Err(error) if how == 2 && error.is_busy() && call.others() < MOST => {
                let took = self.process.world().now() - began;
                let others = call.others();
                let what = format!("{}: {others} others in {took} µs: {error:#}", self.name);
                self.crew.ledger.fail(rules::GIVES_WAY, what);
            }
            Err(error) => {
                self.say(|| format!("{error:#}"));
                // Its node goes in the background, and is in the way until then.
                self.sleep(DELETED).await;
            }
        }
    }
}
