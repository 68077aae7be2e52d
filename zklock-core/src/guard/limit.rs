//! The longest time for which a call holds a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::Notify;

use crate::base::chain::drop_chain;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::unharmed::unharmed;
use crate::local::grant::Grant;
use crate::observe::observer::Event;

/// Until when a call may hold a lock: it and the calls around that hold the same lock.
#[derive(Debug)]
pub struct HoldLimit {
    grant: Arc<Grant>,
    at_most: Duration,
    until: AtomicU64,
    /// The limit of the call around, for a nested call.
    around: Option<Arc<HoldLimit>>,
    ended: AtomicBool,
    changed: Notify,
    told: AtomicBool,
}

impl Drop for HoldLimit {
    fn drop(&mut self) {
        drop_chain(self.around.take(), |limit| limit.around.take());
    }
}

impl HoldLimit {
    fn until(&self) -> Instant {
        Instant::from_nanos(self.until.load(Ordering::Acquire))
    }

    fn all(&self) -> impl Iterator<Item = &HoldLimit> {
        std::iter::successors(Some(self), |limit| limit.around.as_deref())
    }

    /// The limit that is over, if one is.
    fn passed_one(&self) -> Option<&HoldLimit> {
        let now = self.grant.now();
        self.all().filter(|limit| now >= limit.until()).last()
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.passed_one().is_some()
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        let now = self.grant.now();
        self.all().map(|limit| limit.until().since(now)).min().unwrap_or_default()
    }

    /// Resolves when the time is over.
    pub async fn passed(&self) {
        while !self.is_over() {
            self.grant.queue.session().clock().sleep(self.remaining()).await;
        }
    }

    /// The error for a lock that was held for too long, if it was. Reports it as well.
    pub fn error(&self) -> Option<LockError> {
        let passed = self.passed_one()?;
        passed.tell();
        let at_most = humantime::format_duration(passed.at_most);
        let why = format!("its time was over (`hold_at_most` is {at_most})");
        let lock = self.grant.queue.lock_name().clone();
        Some(LockError::new(ErrorKind::HeldTooLong, why).on(lock))
    }

    /// Reports, once, that the time is over.
    fn tell(&self) {
        if self.told.swap(true, Ordering::AcqRel) {
            return;
        }
        let (lock, at_most) = (self.grant.queue.lock_name(), self.at_most);
        unharmed(|| {
            tracing::warn!(
                lock = &**lock,
                ?at_most,
                "the lock was held for longer than `hold_at_most`: an async body is dropped at its \
             next await; a plain body holds the lock until it returns"
            )
        });
        let (mode, token) = (self.grant.mode, self.grant.token);
        let event = || {
            let (lock, pattern) = (lock.clone(), self.grant.queue.pattern().text());
            Event::HeldTooLong { lock, pattern, mode, token, at_most }
        };
        self.grant.queue.session().events().tell(event);
    }

    /// Reports it at that time, also if the body does not look.
    async fn watch(self: Arc<Self>) {
        let clock = self.grant.queue.session().clock();
        while !self.ended.load(Ordering::Acquire) {
            let until = self.until();
            if self.grant.now() < until {
                or(clock.sleep_until(until), self.changed.notified()).await;
            } else {
                self.tell();
                self.changed.notified().await;
            }
        }
    }
}

/// The limit of a guard, which ends with it.
#[derive(Debug)]
pub struct GuardLimit(Arc<HoldLimit>);

impl GuardLimit {
    /// Begins to limit a hold at `since`. `None` if it has no limit of its own.
    pub fn begin(
        grant: &Arc<Grant>,
        at_most: Duration,
        since: Instant,
        around: Option<Arc<HoldLimit>>,
    ) -> Option<Self> {
        if at_most == Duration::MAX {
            return None;
        }
        Some(GuardLimit::start(grant, (at_most, since + at_most), around, false))
    }

    /// The same limit for another grant: of a guard that replaces this one, or of a part of it. That
    /// the time is over is not told again; if it is replaced, the other one tells of it from now on.
    pub fn for_another(limit: &HoldLimit, grant: &Arc<Grant>, is_replaced: bool) -> Self {
        let told = match is_replaced {
            true => limit.told.swap(true, Ordering::AcqRel),
            false => limit.told.load(Ordering::Acquire),
        };
        GuardLimit::start(grant, (limit.at_most, limit.until()), limit.around.clone(), told)
    }

    fn start(
        grant: &Arc<Grant>,
        (at_most, until): (Duration, Instant),
        around: Option<Arc<HoldLimit>>,
        told: bool,
    ) -> Self {
        let until = AtomicU64::new(until.as_nanos());
        let [ended, told] = [false, told].map(AtomicBool::new);
        let (grant, changed) = (grant.clone(), Notify::new());
        let limit = HoldLimit { grant, at_most, until, around, ended, changed, told };
        let limit = Arc::new(limit);
        limit.grant.queue.session().spawner().spawn(limit.clone().watch());
        GuardLimit(limit)
    }

    /// The limit, for views.
    pub fn shared(&self) -> &Arc<HoldLimit> {
        &self.0
    }

    /// Stops the time: the guard is one of several, and the others are waited for.
    pub fn pause(&self) {
        self.0.until.store(Instant::FAR.as_nanos(), Ordering::Release);
        self.0.changed.notify_one();
    }

    /// Begins the time now. A caller that was late to stop it may have been told of already.
    pub fn restart(&self) {
        let until = self.0.grant.now() + self.0.at_most;
        self.0.until.store(until.as_nanos(), Ordering::Release);
        self.0.told.store(false, Ordering::Release);
        self.0.changed.notify_one();
    }
}

impl Drop for GuardLimit {
    fn drop(&mut self) {
        if self.0.grant.now() >= self.0.until() {
            self.0.tell();
        }
        self.0.ended.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use tokio::time::sleep;

    use super::*;
    use crate::base::options::LockOptions;
    use crate::coordinator::memory::Embedded;
    use crate::observe::observer::Observer;
    use crate::session::handle::Session;

    #[derive(Debug)]
    struct Told(Mutex<mpsc::Sender<()>>);

    impl Observer for Told {
        fn event(&self, event: &Event) {
            if let Event::HeldTooLong { .. } = event {
                let _ = self.0.lock().unwrap().send(());
            }
        }
    }

    /// Of several locks the first was granted, and its caller was not polled for so long.
    #[tokio::test(start_paused = true)]
    async fn a_time_that_begins_anew_is_told_of_anew() {
        let (sender, told) = mpsc::channel();
        let told_of = || told.recv_timeout(Duration::from_secs(60));
        let builder = Session::embedded_builder(&Embedded::new());
        let session = builder.observer(Arc::new(Told(Mutex::new(sender)))).open().unwrap();
        let most = Duration::from_secs(10);
        let options = LockOptions::new().hold_at_most(most);
        let guard = session.mutex("a").unwrap().with_options(options).acquire().await.unwrap();
        sleep(2 * most).await;
        told_of().unwrap();
        let limit = guard.own_limit().unwrap();
        limit.pause();
        sleep(most).await;
        limit.restart();
        assert!(guard.is_valid() && told.try_recv().is_err());
        sleep(2 * most).await;
        told_of().unwrap();
        drop(guard);
    }
}
