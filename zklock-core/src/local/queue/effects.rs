//! What is decided is carried out, once the state is unlocked.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, MutexGuard, Weak};

use futures_lite::future::or;
use tokio::sync::{Notify, oneshot};

use super::{Common, Engine, Granting, Inner, Queue, TodoOf};
use crate::acquire::lease::Lease;
use crate::acquire::send_order::SendTurn;
use crate::base::times;
use crate::coordinator::wakes::wake;
use crate::local::callers::Decides;
use crate::local::grant::GrantSource;
use crate::local::panics::catch;
use crate::local::singles::InOrder;
use crate::local::todo::{Fetch, Rare};
use crate::session::lane::LanePermit;
use crate::session::local_queues::of_type;
use crate::session::releaser::Deletions;

/// After so many connections that had no room for its nodes, an acquire is refused: another one may be opened
/// meanwhile, which takes a moment, or never be. Where an order is promised, it is that of one connection.
const MOST_REFUSALS: u32 = 5;

impl<E: Engine> Queue<E> {
    /// Decides something, and carries it out. Returns the deletions of nodes.
    pub fn decide(self: &Arc<Self>, decide: impl FnOnce(&mut E::State) -> TodoOf<E>) -> Deletions {
        let mut inner = self.lock();
        let todo = decide(&mut inner.state);
        self.carry_out(inner, todo)
    }

    /// Carries out what the state decided, after the state is unlocked. Returns the deletions of
    /// nodes.
    pub fn carry_out(
        self: &Arc<Self>,
        inner: MutexGuard<'_, Inner<E>>,
        mut todo: TodoOf<E>,
    ) -> Deletions {
        let (next, others) = (todo.wake.take(), std::mem::take(&mut todo.wake_all));
        let deletions = match todo.only_wakes() {
            true => {
                drop(inner);
                Deletions::default()
            }
            false => self.carry_out_more(inner, todo),
        };
        if let Some(next) = next {
            wake(next);
        }
        // Most often there are none.
        if !others.is_empty() {
            others.into_iter().for_each(wake);
        }
        deletions
    }

    /// The rest of it, before anybody is woken.
    fn carry_out_more(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner<E>>,
        todo: TodoOf<E>,
    ) -> Deletions {
        // A lost lease that is given back late has no companion any more: the present one is
        // another's.
        let ended = todo.release.as_ref().and_then(|released| {
            let is_its = |lease: &Weak<Lease>| std::ptr::eq(lease.as_ptr(), &raw const **released);
            let companion = inner.companion.take_if(|(lease, _)| is_its(lease));
            companion.map(|(_, stop)| stop)
        });
        let decided = todo.release.as_ref().and_then(|released| inner.undecided(released));
        let cancelled = todo.cancel.then(|| inner.driver.take()).flatten();
        let fetch = todo.fetch.map(|fetch| {
            let looks = E::Looks::default();
            inner.driver = Some(looks.clone());
            (fetch, looks)
        });
        let Rare { ask, undecided, accompany, awake, let_go, tried } =
            todo.rare.map(|rare| *rare).unwrap_or_default();
        // Before anybody else can decide it.
        let told = undecided.map(|lease| {
            let (tell, told) = oneshot::channel();
            inner.undecided = Some((Arc::downgrade(&lease), tell));
            told
        });
        let accompany = accompany.map(|lease| {
            let stop = Arc::new(Notify::new());
            inner.companion = Some((Arc::downgrade(&lease), stop.clone()));
            (lease, stop)
        });
        drop(inner);
        if let Some(stop) = ended {
            stop.notify_one();
        }
        if let Some(driver) = cancelled {
            driver.as_ref().stop();
        }
        // The deletions are sent before the creation of the next node.
        let quiet = todo.release.is_some() || !todo.more.is_empty() || todo.cancel;
        let released = todo.release.into_iter().chain(todo.more);
        let mut deletions: Deletions = released.filter_map(|lease| lease.release()).collect();
        let_go.into_iter().for_each(|lease| lease.let_go());
        if let Some((fetch, looks)) = fetch {
            let (queue, stop) = (self.clone(), looks.as_ref().clone());
            let (lane_permit, place) = self.assign();
            let spawner = lane_permit.lane().spawner().clone();
            spawner.spawn_until(stop, move || queue.fetch(lane_permit, place, fetch, looks));
        }
        if let Some(tell) = decided {
            // If nobody waits for it, it goes on in the background.
            drop(tell.send(std::mem::take(&mut deletions)));
        }
        if let Some(lease) = ask {
            E::ask_behind(self, lease);
        }
        if let Some(told) = told {
            deletions = deletions.and_later(told);
        }
        if let Some((lease, stop)) = accompany {
            E::accompany(self, lease, stop);
        }
        if let Some(lease) = awake {
            lease.look_again();
        }
        if quiet {
            self.local_queues().left();
        }
        if !tried.is_empty() {
            E::refuse_stuck(self, &tried);
        }
        deletions
    }

    /// A place on a connection. Acquires of one lock with nodes of their own use the same
    /// connection while any of these requests is pending: requests on several connections may
    /// overtake each other, and an order is promised.
    fn assign(&self) -> (LanePermit, Option<(InOrder, SendTurn)>) {
        let Common { session, singles, .. } = &*self.common;
        if self.main.is_none() {
            return (session.assign(), None);
        }
        // Acquires with other options are in another queue.
        let under = session.local_queues().under(self.lock_path());
        let mains: Vec<_> = under.iter().filter_map(of_type::<Queue<E>>).collect();
        let others = mains.iter().map(|other| other.singles());
        let (lane_permit, place, turn) = singles.assign(others, || session.assign());
        (lane_permit, Some((place, turn)))
    }

    /// Drives one attempt. No `async fn`, which would keep each parameter a second time.
    fn fetch(
        self: Arc<Self>,
        mut lane_permit: LanePermit,
        place: Option<(InOrder, SendTurn)>,
        fetch: Fetch<E::Wants>,
        looks: E::Looks,
    ) -> impl Future<Output = ()> + Send {
        let (mut place, mut turn) = place.unzip();
        async move {
            let mut refusals = 0;
            let result = loop {
                // Pinned here: a future that is passed by value takes up its memory again in each caller.
                let result = {
                    let with = (&lane_permit, turn.as_ref());
                    let acquiring = pin!(E::acquire(&self, with, &fetch, &looks));
                    // Boxed: an allocation of more than 1 KiB takes ten times as long.
                    let telling = Box::pin(E::tell(&self, &fetch, &looks, place.take()));
                    catch(self.layout(), or(acquiring, telling)).await
                };
                if !lane_permit.leaves() {
                    break result;
                }
                // Taken before the old turn is given up, so that nobody overtakes it.
                let (other, others) = self.assign();
                let is_same = Arc::ptr_eq(other.lane(), lane_permit.lane());
                let is_full = lane_permit.is_full();
                refusals += u32::from(is_full);
                if is_full && (refusals == MOST_REFUSALS || !self.session().may_have_room()) {
                    break result;
                }
                // The other one has lost its session meanwhile, has none yet, or may be full as well.
                if refusals > 1 || is_same {
                    // Those behind it find out as well, and are behind it all the same.
                    drop(turn.take());
                    self.session().clock().sleep(times::ELSEWHERE).await;
                }
                (place, turn) = others.unzip();
                lane_permit = other;
            };
            drop((lane_permit, turn));
            let (now, mut inner) = (self.now(), self.lock());
            // A lock may be held for long, and what stops its driver need not be. What that looked at
            // keeps its generation.
            if inner.state.is_fetching(fetch.driver) {
                inner.driver = None;
            }
            let by = Granting::new(&self, now);
            let todo = inner.state.fetched(fetch.driver, result.map(Into::into), &by);
            drop(self.carry_out(inner, todo));
        }
    }
}
