//! A lock as others see it, and what its holder hears of them.

use std::time::Duration;

use futures_lite::future::{or, zip};
use zklock::{AnyGuard, LockError, LockEvent, LockEvents, OnRevoked, ZkLockTemplate};

use super::doors::Call;
use super::task::Task;
use crate::rules;

/// In a world in which nothing goes wrong, everything is told within this time, in microseconds.
const TOLD: u64 = 1_000_000;

impl Task {
    /// Whether nothing has gone wrong since so long ago that it could still be felt.
    fn is_quiet_since(&self, start: u64) -> bool {
        let long = self.process.world().now() - start + 2 * self.crew.timeout;
        self.crew.ledger.quiet_for(long) && !self.crew.ledger.is_closing(&self.process)
    }

    /// What the events of a queue are until one of them is this, or for some time.
    async fn hear(&self, events: &mut LockEvents, last: fn(&LockEvent) -> bool) -> Vec<LockEvent> {
        let mut heard = Vec::new();
        let listening = async {
            while let Some(event) = events.next().await {
                heard.push(event);
                if heard.last().is_some_and(last) {
                    break;
                }
            }
        };
        or(listening, self.sleep(TOLD)).await;
        heard
    }

    /// A lock that others look at, and whose holder they ask to let go.
    pub(super) async fn look_from_outside(&self, call: &Call<'_>) -> Result<(), LockError> {
        let start = self.process.world().now();
        let options = call.options.revocable(true);
        let lock = call.session.mutex(format!("doors/{}", call.name))?.with_options(options);
        let site = lock.site();
        let mut events = site.events();
        let guard = AnyGuard::Mutex(lock.acquire_tries().await?);
        let holds = |event: &LockEvent| matches!(event, LockEvent::Granted(_));
        let heard = self.hear(&mut events, holds).await;
        let survey = site.survey().await?;
        let asked = site.revoke().await?;
        or(self.sleep(TOLD), async { or(guard.revoked(), guard.lost()).await }).await;
        let (valid, revoked) = (guard.is_valid(), guard.is_revoked());
        let released = guard.release().await;
        let leaves = |event: &LockEvent| matches!(event, LockEvent::Left(_) | LockEvent::Lost(_));
        let left = self.hear(&mut events, leaves).await;
        call.has_begun();
        if self.is_quiet_since(start) && call.options.hold_at_most.is_none() {
            let here = survey.queue.first().is_some_and(|holder| holder.here && holder.holds);
            let told = heard.last().is_some_and(holds) && left.last().is_some_and(leaves);
            let alone = survey.queue.len() == 1 && survey.strangers.is_empty();
            if !(here && told && alone && asked == 1 && valid && revoked) {
                let what = format!(
                    "{}: {survey:?}, {asked} asked, valid {valid}, told {revoked}: {heard:?}, {left:?}",
                    self.name
                );
                self.crew.ledger.fail(rules::OUTSIDE, what);
            }
        }
        released
    }

    /// A body that ends when somebody asks for its lock.
    pub(super) async fn is_asked_to_let_go(
        &self,
        call: &Call<'_>,
    ) -> Option<Result<(), LockError>> {
        let (start, name) = (self.process.world().now(), format!("doors/{}", call.name));
        let options = call.options.on_revoked(OnRevoked::Cancel);
        let template = ZkLockTemplate::new(call.session.clone()).with_options(options);
        let site = call.session.site(name.as_str()).ok()?;
        let body = || async {
            call.has_begun();
            self.sleep(10 * TOLD).await;
        };
        let asking = async {
            for _ in 0..10 {
                self.sleep(Duration::from_millis(100).as_micros() as u64).await;
                if site.revoke().await.is_ok_and(|asked| asked > 0) {
                    break;
                }
            }
        };
        let (answer, ()) = zip(template.execute(name.as_str(), body), asking).await;
        let quiet = self.is_quiet_since(start) && call.options.hold_at_most.is_none();
        match answer {
            Err(error) if error.is_revoked() => None,
            answer if quiet => {
                let what = format!("{}: {answer:?} after it was asked to let go", self.name);
                self.crew.ledger.fail(rules::OUTSIDE, what);
                None
            }
            answer => Some(answer),
        }
    }
}
