//! The changes of a lock's queue.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use futures_lite::future::or;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::error_kind::ErrorKind;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::cooldown::mark::Mark;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::coordinator::watch::Watch;
use crate::inspect::contenders::ContenderInfo;
use crate::inspect::nodes::{Changes, changes};
use crate::inspect::site::Site;
use crate::name::path::name_of;
use crate::session::generation::Generation;
use crate::session::lane::LanePermit;
use crate::session::watch_budget::Watching;

/// A change of a lock's queue.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::LockEvent;
///
/// let mut events = session.site("orders")?.events();
/// # let _guard = session.mutex("orders")?.acquire().await?;
/// let holder = loop {
///     match events.next().await {
///         Some(LockEvent::Granted(holder)) => break Some(holder),
///         Some(LockEvent::Blind) | None => break None,
///         Some(_) => {}
///     }
/// };
/// assert!(holder.is_some_and(|holder| holder.here));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockEvent {
    /// A contender is in the queue.
    Joined(ContenderInfo),
    /// A contender holds the lock, or is first in the queue of a lock that is unavailable for a while (see
    /// [`ContenderInfo::holds`]).
    Granted(ContenderInfo),
    /// A contender is gone: a holder that released the lock or whose session ended, or a waiter
    /// that gave up. From outside these look the same.
    Left(ContenderInfo),
    /// A holder of this session is gone because its ZooKeeper session ended. While that connection is only
    /// down, nobody knows, and it has [left](LockEvent::Left).
    Lost(ContenderInfo),
    /// The connection is lost, there is no ZooKeeper session, or ZooKeeper refuses to show the queue, which is logged
    /// as a warning. Changes in the meantime are reported when the queue can be read again.
    Blind,
}

impl LockEvent {
    /// Returns the changes between two looks at a queue, for somebody who [looks](Site::contenders_reusing) again and
    /// again: who left, who joined, and who holds the lock and did not. A holder that was lost has
    /// [left](LockEvent::Left), too, because the queue does not tell.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockEvent;
    ///
    /// let site = session.site("orders")?;
    /// let before = site.contenders().await?;
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// let now = site.contenders_reusing(&before).await?;
    /// let one = now[0].clone();
    /// let events = LockEvent::between(&before, &now);
    /// assert_eq!(events, [LockEvent::Joined(one.clone()), LockEvent::Granted(one)]);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn between(before: &[ContenderInfo], now: &[ContenderInfo]) -> Vec<LockEvent> {
        let of = |one| {
            let ContenderInfo { node, czxid, holds, .. }: &ContenderInfo = one;
            ((&**node, *czxid), *holds)
        };
        let Changes { left, joined, granted } = changes(before, now, of);
        let left = left.into_iter().cloned().map(LockEvent::Left);
        let joined = joined.into_iter().cloned().map(LockEvent::Joined);
        left.chain(joined).chain(granted.into_iter().cloned().map(LockEvent::Granted)).collect()
    }
}

/// The changes of a lock's queue, beginning with the present queue. Returned by [`Site::events`].
///
/// It continues until it is dropped, over reconnects and in new ZooKeeper sessions. Events come in
/// the order of the queue's changes. It looks at the queue only when the [next](LockEvents::next)
/// event is requested, and stores nothing but the last queue: so it delays nobody, and a contender
/// that joins and leaves between two looks is not reported.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::LockEvent;
///
/// let _guard = session.mutex("orders")?.acquire().await?;
/// // The contenders that are already there come first.
/// let mut events = session.site("orders")?.events();
/// assert!(matches!(events.next().await, Some(LockEvent::Joined(_))));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct LockEvents {
    site: Site,
    known: Vec<ContenderInfo>,
    waiting: VecDeque<LockEvent>,
    view: Option<View>,
    blind: bool,
    /// When it is said that there is no ZooKeeper session in which to look. Kept, because a call that waits may be
    /// dropped again and again.
    blind_at: Option<Instant>,
    /// Whether the last look was refused.
    refused: bool,
}

/// The result of the last look.
struct View {
    /// Keeps the connection, which may be another one than the first, from being closed because it is idle.
    lane_permit: LanePermit,
    generation: Arc<Generation>,
    reconnects: u64,
    watch: Watch,
    /// Counts the watch in the session's budget. `None`: there was no room for a watch.
    _watching: Option<Watching>,
    /// When to look again in any case. Kept, because a call that waits may be dropped again and again.
    look_at: Instant,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("generation", &self.generation.number())
            .finish_non_exhaustive()
    }
}

/// Why a view is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// The queue may have changed.
    Look,
    /// The connection is lost.
    Cut,
}

impl View {
    async fn until_news(&mut self, clock: &Clock, blind: bool) -> News {
        let View { generation, reconnects, watch, look_at, .. } = self;
        let mut slow = pin!(clock.sleep_until(*look_at));
        loop {
            let mut changed = pin!(generation.changed());
            changed.as_mut().enable();
            let link = generation.coordinator().link();
            if generation.is_retired() || generation.reconnects() != *reconnects {
                return News::Look;
            }
            if link == Link::Down && !blind {
                return News::Cut;
            }
            let look = async {
                let fired = async {
                    watch.as_mut().await;
                };
                or(fired, slow.as_mut()).await;
                true
            };
            let other = async {
                let relinked = async {
                    generation.coordinator().link_changed(link).await;
                };
                or(changed, relinked).await;
                false
            };
            if or(look, other).await {
                return News::Look;
            }
        }
    }
}

impl Site {
    /// Returns the changes of this lock's queue, as they happen.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::LockEvent;
    ///
    /// let session = zklock::Session::embedded();
    /// let mut events = session.site("orders/create")?.events();
    /// let guard = session.mutex("orders/create")?.acquire().await?;
    /// assert!(matches!(events.next().await, Some(LockEvent::Joined(_))));
    /// assert!(matches!(events.next().await, Some(LockEvent::Granted(_))));
    /// guard.release().await?;
    /// assert!(matches!(events.next().await, Some(LockEvent::Left(_))));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn events(&self) -> LockEvents {
        let (known, waiting) = (Vec::new(), VecDeque::new());
        let (view, site) = (None, self.clone());
        LockEvents { site, known, waiting, view, blind: false, blind_at: None, refused: false }
    }
}

impl LockEvents {
    /// Waits for the next event and returns it; `None` once the session is closed.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mut events = session.site("orders")?.events();
    /// session.close().await;
    /// assert_eq!(events.next().await, None);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future loses no event.
    pub async fn next(&mut self) -> Option<LockEvent> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if let Some(view) = &mut self.view {
                let news = view.until_news(self.site.session.clock(), self.blind).await;
                if news == News::Look || is_another_served(&self.site, &view.lane_permit) {
                    self.view = None;
                } else {
                    self.go_blind();
                }
                continue;
            }
            let (clock, lane_permit) =
                (self.site.session.clock().clone(), self.site.session.served());
            let soon = self.blind_at.unwrap_or_else(|| clock.now() + times::ELSEWHERE);
            self.blind_at = Some(soon);
            let soon = Deadline::at(clock.clone(), soon);
            let ready = soon.bound(lane_permit.ready()).await;
            self.blind_at = None;
            let generation = match ready {
                Ok(Ok(generation)) => generation,
                Ok(Err(error)) if error.kind() == ErrorKind::Closing => return None,
                Ok(Err(_))
                    if lane_permit.leaves() && is_another_served(&self.site, &lane_permit) =>
                {
                    continue;
                }
                // An operator has to repair this, and the lane tries again from time to time; or the other connection
                // serves nobody just now.
                Ok(Err(_)) => {
                    if !self.go_blind() {
                        clock.sleep(times::FAILED_FOLLOW * 10).await;
                    }
                    continue;
                }
                // Meanwhile another connection may have a session.
                Err(_) => {
                    self.go_blind();
                    continue;
                }
            };
            let watching = generation.watches().take([self.site.path()]);
            match look(&self.site, &self.known, &generation, watching.is_some()).await {
                Ok((seen, watch)) => {
                    self.compare(seen);
                    (self.blind, self.refused) = (false, false);
                    let reconnects = generation.reconnects();
                    // Watches have been seen to get lost; an occasional look without one costs little.
                    let slowly = match watching {
                        Some(_) => generation.long_wait(),
                        None => generation.slow_look(),
                    };
                    let look_at = clock.now() + slowly;
                    self.view = Some(View {
                        lane_permit,
                        generation,
                        reconnects,
                        watch,
                        _watching: watching,
                        look_at,
                    });
                }
                Err(error) => {
                    let (is_refused, was_refused) = (error.is_definite(), self.refused);
                    self.refused = is_refused;
                    if is_refused && !was_refused {
                        let lock = self.site.name.as_str();
                        unharmed(
                            || tracing::warn!(lock, %error, "the queue of a lock cannot be followed"),
                        );
                    }
                    if !self.go_blind() {
                        let longer = if is_refused { 10 } else { 1 };
                        generation.pause(times::FAILED_FOLLOW * longer).await;
                    }
                }
            }
        }
    }

    /// Records that the connection is lost. False if that is known already.
    fn go_blind(&mut self) -> bool {
        let news = !std::mem::replace(&mut self.blind, true);
        if news {
            self.waiting.push_back(LockEvent::Blind);
        }
        news
    }

    /// Reports the differences from the last look.
    fn compare(&mut self, seen: Vec<ContenderInfo>) {
        let before = std::mem::replace(&mut self.known, seen);
        let is_lost = |gone: &ContenderInfo| {
            gone.holds && gone.here && self.has_ended(gone.zookeeper_session)
        };
        let told = LockEvent::between(&before, &self.known).into_iter().map(|event| match event {
            LockEvent::Left(gone) if is_lost(&gone) => LockEvent::Lost(gone),
            event => event,
        });
        let told: Vec<_> = told.collect();
        self.waiting.extend(told);
    }

    /// Whether a ZooKeeper session of ours is certainly over. While its client only connects again, its
    /// nodes may be gone because they were released.
    fn has_ended(&self, session: i64) -> bool {
        self.site.session.generation_of(session).is_none_or(|generation| {
            generation.is_over() || generation.coordinator().link().is_over()
        })
    }
}

/// Whether a look would now go over another connection than this.
fn is_another_served(site: &Site, lane_permit: &LanePermit) -> bool {
    !Arc::ptr_eq(site.session.served().lane(), lane_permit.lane())
}

/// Lists the queue and watches its directory; if there is none, the nearest existing node above it.
async fn look(
    site: &Site,
    known: &[ContenderInfo],
    generation: &Arc<Generation>,
    watched: bool,
) -> Result<(Vec<ContenderInfo>, Watch), RequestError> {
    let coordinator = generation.coordinator();
    let paths: Vec<_> = std::iter::once("/").chain(site.directory.ancestors_and_self()).collect();
    let mut at = paths.len() - 1;
    loop {
        match children(&**coordinator, paths[at], watched).await {
            Ok((names, watch)) => {
                let Some(below) = paths.get(at + 1) else {
                    // Nothing would tell that a rest is over.
                    let mark = Mark::default();
                    let seen = site.describe(&**coordinator, names, known, &mark).await?;
                    return Ok((seen.queue, watch));
                };
                // The node may have been created since the look, and this watch would not report
                // that.
                if !names.iter().any(|child| child == name_of(below)) {
                    return Ok((Vec::new(), watch));
                }
                at += 1;
            }
            Err(RequestError::NoNode) if at > 0 => at -= 1,
            Err(error) => return Err(error),
        }
    }
}

/// Reads the children of a node, with a watch if the budget has room for one.
async fn children(
    coordinator: &dyn Coordinator,
    path: &str,
    watched: bool,
) -> Result<(Vec<String>, Watch), RequestError> {
    if watched {
        return coordinator.children_watched(path).await;
    }
    Ok((coordinator.children(path).await?, Box::pin(pending())))
}
