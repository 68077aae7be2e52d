//! Whether a contender of another process is behind a node that this process keeps.

use std::sync::Arc;

use futures_lite::future::or;
use tokio::sync::Notify;

use super::Locks;
use crate::acquire::lease::Lease;
use crate::base::clock::Instant;
use crate::base::policy::pause_after;
use crate::base::times;
use crate::coordinator::link::Link;
use crate::coordinator::watch::Watch;
use crate::local::grant::GrantSource;
use crate::local::panics::catch;
use crate::local::queue::{Engine, Granting, Queue};
use crate::session::releaser::in_time;

impl Queue<Locks> {
    /// Finds out whether a contender is behind a node, when this process has kept it for its turn.
    pub(super) async fn ask_behind(self: Arc<Self>, lease: Arc<Lease>) {
        let behind = self.is_anybody_behind(&lease, |state| state.asks_again(&lease)).await;
        let by = Granting::new(&self, self.now());
        let mut inner = self.lock();
        let todo = inner.state.asked(&lease, behind, &by);
        // If the node stays, it is decided as well: whoever let go of it waits for nothing more.
        let stays = if todo.release.is_none() { inner.undecided(&lease) } else { None };
        drop(self.carry_out(inner, todo));
        drop(stays);
        by.tell_handed_on();
    }

    fn stands_behind(&self, children: &[String], lease: &Lease) -> bool {
        let driver = &self.engine().target.driver;
        driver.anybody_behind(&driver.queue(children), lease.node_name())
    }

    /// Whether another contender waits behind this node. Where nobody replies in time, somebody may, unless it can be
    /// waited for: nobody can use a lock that was released until then.
    async fn is_anybody_behind(
        &self,
        lease: &Arc<Lease>,
        can_wait: impl Fn(&<Locks as Engine>::State) -> bool,
    ) -> bool {
        let generation = lease.generation();
        let ask = || generation.coordinator().children(self.path());
        let mut listing = ask();
        let listed = loop {
            match in_time(generation, generation.patience(), listing.as_mut()).await {
                Some(Ok(listed)) => break listed,
                Some(Err(error)) if error.is_definite() => return true,
                _ if !can_wait(&self.lock().state) => return true,
                // It is sent again meanwhile, and the first answer counts.
                None => {}
                Some(Err(_)) => {
                    generation.pause(pause_after(3)).await;
                    listing = ask();
                }
            }
        };
        let looked = async { Ok(self.stands_behind(&listed, lease)) };
        catch(self.layout(), looked).await.unwrap_or(true)
    }

    /// Watches for contenders behind a node, and ends its lingering.
    pub(super) async fn accompany(self: Arc<Self>, lease: Arc<Lease>, stop: Arc<Notify>) {
        let stopped = async {
            stop.notified().await;
            Ok(())
        };
        let watching = async {
            let mut watch: Option<Watch> = None;
            let mut looked = self.now();
            let Some(_watching) = lease.generation().watches().take([self.path()]) else {
                return self.look_now_and_then(&lease).await;
            };
            loop {
                if watch.is_none() {
                    let generation = lease.generation();
                    let listing = generation.coordinator().children_watched(self.path());
                    let listed = generation.unless_over(listing).await;
                    let behind = match listed {
                        Ok((children, watching)) => {
                            watch = Some(watching);
                            Some(self.stands_behind(&children, &lease))
                        }
                        // It may not look, or the directory is gone.
                        Err(error) if error.is_definite() => Some(true),
                        // It looks again. A connection in doubt ends the lingering in any case.
                        Err(_) => None,
                    };
                    self.looked_behind(&lease, behind);
                    if !self.needs_companion(&lease) {
                        return;
                    }
                    looked = self.now();
                }
                let mut changed = std::pin::pin!(lease.generation().changed());
                changed.as_mut().enable();
                let mut news = std::pin::pin!(lease.changed());
                news.as_mut().enable();
                let link = lease.generation().coordinator().link();
                let Some(until) = self.linger_on(&lease, link != Link::Up) else { return };
                // Notifications have been seen to get lost.
                let long = lease.generation().long_wait();
                let look_again = looked + watch.as_ref().map_or(times::LINGERING, |_| long);
                let fired = async {
                    match watch.as_mut() {
                        Some(watching) => {
                            watching.await;
                        }
                        None => std::future::pending().await,
                    }
                    true
                };
                let other = async {
                    let timer = self.session().clock().sleep_until(until.min(look_again));
                    let relinked = async {
                        lease.generation().coordinator().link_changed(link).await;
                    };
                    let changed = or(or(changed, news), relinked);
                    or(timer, changed).await;
                    false
                };
                if or(fired, other).await || self.now() >= look_again {
                    // Many may come and go behind those who read.
                    if self.lock().state.is_closed(&lease) {
                        self.session().clock().sleep_until(looked + times::CLOSED).await;
                    }
                    watch = None;
                }
            }
        };
        let watching = async {
            watching.await;
            Ok(())
        };
        if catch(self.layout(), or(stopped, watching)).await.is_err() {
            self.looked_behind(&lease, Some(true));
        }
    }

    /// What the companion does if there are too many watches: no node lingers, and readers who wait enter late.
    async fn look_now_and_then(self: &Arc<Self>, lease: &Arc<Lease>) {
        while self.goes_on_unwatched(lease) {
            self.session().clock().sleep(lease.generation().slow_look()).await;
            if !self.is_anybody_behind(lease, |state| state.is_closed(lease)).await {
                self.looked_behind(lease, Some(false));
            }
        }
    }

    fn goes_on_unwatched(self: &Arc<Self>, lease: &Arc<Lease>) -> bool {
        let (now, mut goes_on) = (self.now(), false);
        drop(self.decide(|state| {
            let (so, todo) = state.goes_on_unwatched(lease, now);
            goes_on = so;
            todo
        }));
        goes_on
    }

    fn needs_companion(&self, lease: &Arc<Lease>) -> bool {
        self.lock().state.needs_companion(lease, true, lease.lingers())
    }

    fn looked_behind(self: &Arc<Self>, lease: &Arc<Lease>, behind: Option<bool>) {
        let by = Granting::new(self, self.now());
        drop(self.decide(|state| state.looked_behind(lease, behind, &by)));
        by.tell_handed_on();
    }

    fn linger_on(self: &Arc<Self>, lease: &Arc<Lease>, doubt: bool) -> Option<Instant> {
        let (now, mut until) = (self.now(), None);
        let deletion = self.decide(|state| {
            let (sleep, todo) = state.linger_on(lease, doubt, now);
            until = sleep;
            todo
        });
        drop(deletion);
        until
    }
}
