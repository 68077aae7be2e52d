//! Warnings of callers that wait or hold for long.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::oneshot;

use crate::base::caller::Caller;
use crate::base::clock::{Clock, Instant};
use crate::base::unharmed::unharmed;
use crate::session::spawner::Spawner;

/// A caller that waits or holds, and from when on that is logged.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The lock.
    pub lock: Arc<str>,
    /// The caller.
    pub who: Caller,
    /// Its label.
    pub label: Option<Arc<str>>,
    /// When it began.
    pub since: Instant,
    /// From when on it is logged; `Duration::MAX` is never.
    pub limit: Duration,
}

impl Slow {
    /// Waits, and logs a wait that takes long.
    pub async fn waiting<T>(self, clock: &Clock, waiting: impl Future<Output = T>) -> T {
        if self.limit == Duration::MAX {
            return waiting.await;
        }
        let warning = async {
            clock.sleep_until(self.since + self.limit).await;
            let (lock, who, limit, label) = self.told();
            unharmed(|| {
                tracing::warn!(
                    lock,
                    who,
                    label,
                    ?limit,
                    "a caller waits for longer than `warn_waiting`"
                );
            });
            pending().await
        };
        or(waiting, warning).await
    }

    /// Logs a hold that takes long, unless the returned value is dropped before.
    pub fn holding(self, clock: &Clock, spawner: &Spawner) -> Warning {
        let (end, ended) = oneshot::channel::<()>();
        let clock = clock.clone();
        spawner.spawn(async move {
            let takes_long = async {
                clock.sleep_until(self.since + self.limit).await;
                true
            };
            if or(async { ended.await.is_ok() }, takes_long).await {
                let (lock, who, limit, label) = self.told();
                unharmed(|| {
                    tracing::warn!(
                        lock,
                        who,
                        label,
                        ?limit,
                        "a lock is held for longer than `warn_holding`"
                    );
                });
            }
        });
        Warning(end)
    }

    fn told(&self) -> (&str, String, Duration, &str) {
        let label = self.label.as_deref().unwrap_or_default();
        (&self.lock, self.who.to_string(), self.limit, label)
    }
}

/// A hold that is logged if it takes long. It ends when it is dropped.
#[derive(Debug)]
pub struct Warning(#[allow(dead_code, reason = "its end is what counts")] oneshot::Sender<()>);
