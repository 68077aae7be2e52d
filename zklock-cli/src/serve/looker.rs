//! Looks at the locks, once for all who want to see them, and only while somebody does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use zklock::{ContenderInfo, Session, SessionState};

use crate::inspect::moment;
use crate::ls::Found;
use crate::serve::history::History;
use crate::serve::state::state;
use crate::text::json_text;
use crate::top::look::look;
use crate::when::millis;
use crate::why::life::Life;
use crate::why::view::View;

/// ZooKeeper is slow to answer from here on, or three times as long as the last look took.
const SLOW: Duration = Duration::from_secs(3);

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The locks, as JSON, and a number that changes with them.
    pub(super) state: Arc<str>,
    pub(super) number: u64,
    /// When that was, and why it may be old.
    last: Option<SystemTime>,
    pub(super) trouble: Option<Arc<str>>,
    /// When that was told.
    at: Option<Instant>,
    /// Whether nobody has looked since.
    paused: bool,
}

pub(super) struct Looker {
    pub(super) session: Session,
    pub(super) prefix: Option<String>,
    servers: Vec<String>,
    interval: Duration,
    breaks: bool,
    seen: watch::Sender<Seen>,
    /// Somebody wants to see.
    wanted: Notify,
    /// Something has just changed.
    changed: Notify,
    history: Mutex<History>,
}

impl Looker {
    pub(super) fn new(
        session: Session,
        servers: Vec<String>,
        prefix: Option<String>,
        interval: Duration,
        breaks: bool,
    ) -> Self {
        let (seen, wanted, changed, history) = Default::default();
        Looker { session, prefix, servers, interval, breaks, seen, wanted, changed, history }
    }

    /// What is seen from now on, for as long as this is kept.
    pub(super) fn follow(&self) -> watch::Receiver<Seen> {
        let mut seen = self.seen.subscribe();
        // What was seen before nobody looked is better than nothing, and is told as such.
        seen.mark_changed();
        self.wanted.notify_one();
        seen
    }

    /// Looks again at once.
    pub(super) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// The present time, when ZooKeeper answered last, and why that may be old, as JSON. Nothing before that is known.
    pub(super) fn told(&self, seen: &Seen) -> Option<String> {
        seen.at?;
        let paused = seen.paused.then_some("Nobody looked at the locks");
        let told = json!({
            "at": moment(now()),
            "seen": seen.last.map(moment),
            "trouble": seen.trouble.as_deref().or(paused),
            "interval_ms": millis(self.interval),
        });
        Some(json_text(&told))
    }

    /// What is seen within an interval, or the trouble that there is.
    pub(super) async fn fresh(&self) -> Seen {
        let mut seen = self.follow();
        let begin = Instant::now();
        let recent = |seen: &Seen| seen.at.is_some_and(|at| at + self.interval > begin);
        let found = seen.wait_for(recent).await;
        found.map(|seen| seen.clone()).unwrap_or_default()
    }

    pub(super) fn history<T>(&self, with: impl FnOnce(&mut History) -> T) -> T {
        with(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks, until the program ends.
    pub(super) async fn run(&self) {
        let mut last: Option<(Instant, SystemTime)> = None;
        let mut took = Duration::ZERO;
        loop {
            while self.seen.receiver_count() == 0 {
                self.pause();
                self.wanted.notified().await;
            }
            let begin = Instant::now();
            let mut looking =
                std::pin::pin!(look(&self.session, &self.servers, self.prefix.as_deref()));
            let looked = loop {
                tokio::select! {
                    looked = &mut looking => break looked,
                    () = sleep(Duration::from_millis(500)) => {}
                }
                let seen = last.map(|last| last.1);
                if self.session.state() != SessionState::Connected {
                    self.tell(seen, Some("ZooKeeper does not answer"));
                } else if begin.elapsed() > SLOW.max(3 * took) {
                    self.tell(seen, Some("ZooKeeper is slow to answer, or does not"));
                }
            };
            match looked {
                Ok((found, views)) => {
                    let gap =
                        last.is_some_and(|last| last.0.elapsed() > self.interval + SLOW + took);
                    took = begin.elapsed();
                    let now = now();
                    self.show(&found, &views, now, gap);
                    last = Some((Instant::now(), now));
                    self.tell(Some(now), None);
                }
                Err(error) => self.tell(last.map(|last| last.1), Some(&format!("{error:#}"))),
            }
            // At most half of the time it looks.
            tokio::select! {
                () = sleep_until(begin + self.interval.max(2 * begin.elapsed())) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn show(&self, found: &Found, views: &[View], now: SystemTime, gap: bool) {
        let is_dying = |one: &ContenderInfo| match Life::of(one, views) {
            Life::Alone => true,
            life => life.is_silent(one),
        };
        let state = self.history(|history| {
            history.seen(&found.locks, is_dying, now, gap);
            json_text(&state(found, views, history, self.prefix.as_deref(), self.breaks))
        });
        self.seen.send_if_modified(|seen| {
            if *seen.state != *state {
                (seen.state, seen.number) = (state.into(), seen.number + 1);
            }
            // Together with the time of the look.
            false
        });
    }

    fn tell(&self, last: Option<SystemTime>, trouble: Option<&str>) {
        self.seen.send_modify(|seen| {
            (seen.last, seen.trouble) = (last, trouble.map(Arc::from));
            (seen.at, seen.paused) = (Some(Instant::now()), false);
        });
    }

    /// Whoever comes next is told that this is old.
    fn pause(&self) {
        self.seen.send_if_modified(|seen| {
            seen.paused = true;
            false
        });
    }
}

/// The time of this machine, which is only shown.
#[allow(clippy::disallowed_methods)]
fn now() -> SystemTime {
    SystemTime::now()
}
