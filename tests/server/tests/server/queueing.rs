//! Places, order, and what those who give up leave: for locks of every kind, on a busy day.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zklock::{Handoffs, LockOptions, Session};
use zklock_test_support::{Control, monotonic_ns};

use crate::bed::{Bed, PATIENCE, soon, until};
use crate::kinds::{Held, KINDS, Kind, Wait};

/// The nodes of a lock that are another's than the holder's.
fn waiting_nodes(bed: &Bed, kind: Kind, holder: &Held) -> BTreeSet<String> {
    let below = format!("{}/", bed.path(kind.name()));
    let sessions = bed.server().sessions();
    let holds = |path: &String| path == holder.node_path();
    let others = sessions.into_iter().filter(|lane| !lane.ephemerals.iter().any(holds));
    others.flat_map(|lane| lane.ephemerals).filter(|path| path.starts_with(&below)).collect()
}

/// All nodes of a lock.
fn all_nodes(bed: &Bed, kind: Kind) -> BTreeSet<String> {
    let below = format!("{}/", bed.path(kind.name()));
    let nodes = bed.server().sessions().into_iter().flat_map(|lane| lane.ephemerals);
    nodes.filter(|path| path.starts_with(&below)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_is_kept_from_one_try_to_the_next() {
    let bed = Bed::shared("places");
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&holder, &waiter]).await;
    // Who wants the exclusive lock has no place: there is one node, and that is the holder's.
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| *kind != Kind::Exclusive).collect();
    let (mut held, mut waiting) = (Vec::new(), JoinSet::new());
    // So long that a slow server answers within one, and a slow machine looks often enough before the
    // first call ends.
    let tries = LockOptions::default().timeout(Duration::from_secs(1)).retries(10);
    for kind in &kinds {
        held.push(kind.rival().acquire(&holder).await);
    }
    for (number, kind) in kinds.iter().copied().enumerate() {
        let waiter = waiter.clone();
        waiting.spawn(async move {
            // One after the other: threads keep theirs, too.
            if number % 2 == 0 {
                return kind.take(&waiter, tries, Wait::Tries).await.unwrap_err();
            }
            let take = move || kind.take_blocking(&waiter, tries, Wait::Tries).unwrap_err();
            spawn_blocking(take).await.unwrap()
        });
    }
    let nodes = || kinds.iter().zip(&held).map(|(kind, held)| waiting_nodes(&bed, *kind, held));
    let places = until("everybody has a place", || {
        let nodes: Vec<_> = nodes().collect();
        nodes.iter().all(|nodes| !nodes.is_empty()).then_some(nodes)
    })
    .await;
    // Of a semaphore, the nodes come one after the other.
    let mut last = places;
    let places = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now: Vec<_> = nodes().collect();
        if now == std::mem::replace(&mut last, now.clone()) {
            break now;
        }
    };
    // Several tries end before the first call does.
    let mut looks = 0;
    while waiting.len() == kinds.len() && waiting.try_join_next().is_none() {
        let now: Vec<_> = nodes().collect();
        if waiting.try_join_next().is_none() {
            assert_eq!(now, places);
            looks += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(looks > 10, "{looks}");
    while let Some(error) = waiting.join_next().await {
        let error = error.unwrap();
        assert!(error.is_busy(), "{error}");
    }
    for held in held {
        held.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_or_panics_leaves_nothing() {
    let bed = Bed::shared("gives-up");
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&holder, &waiter]).await;
    for held in [false, true] {
        let mut guards = Vec::new();
        for kind in KINDS {
            if held {
                let guard = kind.rival().acquire(&holder).await;
                // Of several locks as one, each may be held on another connection.
                guards.push((guard, all_nodes(&bed, kind)));
            }
        }
        let mut callers = JoinSet::new();
        for number in 0..20 {
            for kind in KINDS {
                let waiter = waiter.clone();
                // At any moment of the first flight, or in the queue.
                let patience = match number {
                    // One of each comes in, if nobody else is there.
                    0 if !held => PATIENCE,
                    _ => Duration::from_micros(monotonic_ns() % 20_000 * (1 + number % 3)),
                };
                callers.spawn(async move {
                    tokio::time::timeout(patience, async {
                        let _held = kind.acquire(&waiter).await;
                        panic!("as asked");
                    })
                    .await
                });
            }
        }
        let (mut gave_up, mut panicked) = (0, 0);
        while let Some(ended) = callers.join_next().await {
            match ended {
                Ok(outcome) => gave_up += usize::from(outcome.is_err()),
                Err(error) => panicked += usize::from(error.is_panic()),
            }
        }
        println!("held {held}: {gave_up} gave up, {panicked} panicked inside");
        assert!(gave_up > 0 && (panicked > 0) != held);
        for (kind, (held, before)) in KINDS.into_iter().zip(guards) {
            let none = || {
                let left: Vec<_> = all_nodes(&bed, kind).difference(&before).cloned().collect();
                if !left.is_empty() {
                    println!("{kind:?}: {left:?} beside {before:?}");
                }
                left.is_empty().then_some(())
            };
            until("no node of a waiter is left", none).await;
            assert!(held.is_valid(), "{kind:?}");
            held.release().await.unwrap();
        }
        for kind in KINDS {
            soon("the lock", kind.acquire(&waiter)).await.release().await.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}

/// Callers of one session queue up one after the other; answers in which order they came in, and
/// how many nodes they had.
async fn in_turn(session: &Session, kind: Kind, callers: usize) -> (Vec<usize>, usize) {
    let first = kind.acquire(session).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let nodes = Arc::new(Mutex::new(BTreeSet::from([first.node_path().to_owned()])));
    let mut waiting = JoinSet::new();
    for caller in 0..callers {
        let (order, nodes, session_of) = (order.clone(), nodes.clone(), session.clone());
        waiting.spawn(async move {
            let held = if caller % 3 == 0 {
                let take = move || {
                    kind.take_blocking(&session_of, LockOptions::default(), Wait::Forever).unwrap()
                };
                spawn_blocking(take).await.unwrap()
            } else {
                kind.acquire(&session_of).await
            };
            order.lock().unwrap().push(caller);
            nodes.lock().unwrap().insert(held.node_path().to_owned());
            held.release().await.unwrap();
        });
        until("the caller waits", || {
            let all = session.local_contenders();
            let here = all.iter().filter(|one| &*one.lock == kind.name());
            (here.filter(|one| !one.holds).count() == caller + 1).then_some(())
        })
        .await;
    }
    first.release().await.unwrap();
    while let Some(ended) = soon("all come in", waiting.join_next()).await {
        ended.unwrap();
    }
    let order = std::mem::take(&mut *order.lock().unwrap());
    let nodes = nodes.lock().unwrap().len();
    (order, nodes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_a_process_come_in_as_they_came_and_share_a_node() {
    const CALLERS: usize = 12;
    let bed = Bed::shared("in-turn");
    let session = bed.session().await;
    let busy = bed.busy(&[&session]).await;
    let in_order: Vec<_> = (0..CALLERS).collect();
    for kind in [Kind::Mutex, Kind::Exclusive, Kind::Write, Kind::Permit] {
        let (order, nodes) = in_turn(&session, kind, CALLERS).await;
        assert_eq!(order, in_order, "{kind:?}");
        // A permit is given back at the bound of handoffs, whoever is behind.
        assert!(nodes == 1 || kind == Kind::Permit, "{kind:?}: {nodes} nodes");
    }
    drop(busy);
    bed.end().await;
}

/// However many callers of one process want a lock all the time, another process waits for its turn no
/// longer than they may hand it on, and for who has it then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_comes_in_within_the_bound_of_handoffs() {
    const WITHIN: Duration = Duration::from_millis(500);
    const HOLD: Duration = Duration::from_millis(5);
    // To the creation, where perhaps the answer to a question that arrived just before it begins a turn;
    // to the next question, at the end of that turn; to the deletion; and to the list after it.
    const ANSWERS: u32 = 4;
    let bed = Bed::shared("handoffs");
    let (session, other) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&session, &other]).await;
    let handed_on = LockOptions::default().handoffs(Handoffs::new().most(u32::MAX).within(WITHIN));
    for kind in [Kind::Mutex, Kind::Read, Kind::Write, Kind::Permit, Kind::Permits] {
        let (stop, had) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut callers = JoinSet::new();
        for caller in 0..6 {
            let (session, stop, had) = (session.clone(), stop.clone(), had.clone());
            callers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let held = if caller % 3 == 0 {
                        let session = session.clone();
                        let take = move || kind.take_blocking(&session, handed_on, Wait::Forever);
                        spawn_blocking(take).await.unwrap()
                    } else {
                        kind.take(&session, handed_on, Wait::Forever).await
                    };
                    tokio::time::sleep(HOLD).await;
                    held.unwrap().release().await.unwrap();
                    had.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until("they hand it on", || (had.load(Ordering::Relaxed) > 20).then_some(())).await;
        for round in 0..4 {
            tokio::time::sleep(round * WITHIN / 3).await;
            let (control, start) = (Control::of(bed.server()), Instant::now());
            let held = soon("another's turn", kind.rival().acquire(&other)).await;
            // For who holds it when the turn is over, and for who comes in before that is known.
            let (what, promised) = (format!("{kind:?} of another"), WITHIN + 2 * HOLD);
            control.within_answers(&what, start.elapsed(), promised, ANSWERS);
            held.release().await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("all end", callers.join_next()).await {
            ended.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_so_many_are_handed_on_before_another_process_comes_in() {
    let bed = Bed::shared("handoffs-exactly");
    let (session, other) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&session, &other]).await;
    for most in [0, 1, 3] {
        let bound = LockOptions::new().handoffs(Handoffs::new().most(most).within(PATIENCE));
        for limit in 1..=3 {
            let name = format!("printers-{limit}");
            let permits =
                |session: &Session| session.semaphore(&name, limit).unwrap().with_options(bound);
            let (here, there) = (permits(&session), permits(&other));
            let mut held = Vec::new();
            for _ in 0..limit {
                held.push(here.acquire().await.unwrap());
            }
            let (come, mut came) = tokio::sync::mpsc::unbounded_channel();
            let theirs = come.clone();
            let waiting = tokio::spawn(async move {
                let permit = there.acquire().await.unwrap();
                theirs.send("there").unwrap();
                permit
            });
            // The other waits for a permit: its node among them is there.
            bed.until_nodes(&format!("{name}/leases"), limit as usize + 1).await;
            let callers = (0..most + 4).map(|_| {
                let (here, come) = (here.clone(), come.clone());
                tokio::spawn(async move {
                    let permit = here.acquire().await.unwrap();
                    // Those who come after the other find nobody who listens.
                    _ = come.send("here");
                    permit.release().await.unwrap();
                })
            });
            let callers: Vec<_> = callers.collect();
            until("all wait", || {
                let waits = |one: &&zklock::LocalContender| *one.lock == *name && !one.holds;
                (session.local_contenders().iter().filter(waits).count() == callers.len())
                    .then_some(())
            })
            .await;
            held.pop().unwrap().release().await.unwrap();
            let mut before = 0;
            while soon("somebody comes", came.recv()).await.unwrap() == "here" {
                before += 1;
            }
            assert_eq!(before, most, "of {limit} permits");
            drop((came, held));
            waiting.await.unwrap().release().await.unwrap();
            for caller in callers {
                soon("all come", caller).await.unwrap();
            }
        }
    }
    drop(busy);
    bed.end().await;
}

/// With several permits, of which a third process has one now and then, so that more of them come from
/// ZooKeeper while others are handed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_gets_one_of_several_permits_within_the_bound_of_handoffs() {
    const WITHIN: Duration = Duration::from_millis(500);
    const HOLD: Duration = Duration::from_millis(5);
    let bed = Bed::shared("handoffs-of-several");
    let sessions = bed.sessions(3).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    let bound = Handoffs::new().most(u32::MAX).within(WITHIN);
    let permits = |session: &Session| {
        let bound = LockOptions::new().handoffs(bound);
        session.semaphore("printers", 3).unwrap().with_options(bound)
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..10 {
        let is_third = caller == 0;
        let (permits, stop) = (permits(&sessions[usize::from(is_third)]), stop.clone());
        callers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let permit = permits.acquire().await.unwrap();
                tokio::time::sleep(if is_third { WITHIN / 2 } else { HOLD }).await;
                permit.release().await.unwrap();
            }
        });
    }
    for round in 0..12 {
        tokio::time::sleep(round * WITHIN / 5).await;
        let (control, start) = (Control::of(bed.server()), Instant::now());
        let permit = soon("another's turn", permits(&sessions[2]).acquire()).await.unwrap();
        // The third may be ahead, and takes the first that is given back.
        control.within_answers("a permit of another", start.elapsed(), WITHIN + 2 * HOLD, 4);
        permit.release().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = soon("all end", callers.join_next()).await {
        ended.unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// Tasks of several processes for one lock, in the order in which they queue up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_callers_of_all_processes_come_in_as_they_came() {
    const CALLERS: usize = 12;
    let bed = Bed::shared("in-turn-fair");
    let sessions = bed.sessions(3).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    for kind in [Kind::Mutex, Kind::Write] {
        let fair = LockOptions::default().fair(true);
        let first = kind.take(&sessions[0], fair, Wait::Forever).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for caller in 0..CALLERS {
            let (order, session) = (order.clone(), sessions[caller % sessions.len()].clone());
            waiting.spawn(async move {
                let held = kind.take(&session, fair, Wait::Forever).await.unwrap();
                order.lock().unwrap().push(caller);
                held.release().await.unwrap();
            });
            bed.until_nodes(kind.name(), caller + 2).await;
        }
        first.release().await.unwrap();
        while let Some(ended) = soon("all come in", waiting.join_next()).await {
            ended.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..CALLERS).collect::<Vec<_>>(), "{kind:?}");
    }
    drop(busy);
    bed.end().await;
}

/// How often somebody came in beside, over all locks.
#[derive(Default)]
struct Inside(Mutex<HashMap<&'static str, usize>>);

impl Inside {
    fn enter(&self, kind: Kind) {
        let mut inside = self.0.lock().unwrap();
        let now = inside.entry(kind.name()).or_default();
        *now += 1;
        assert_eq!(*now, 1, "{kind:?}: two inside at once");
    }

    fn leave(&self, kind: Kind) {
        *self.0.lock().unwrap().get_mut(kind.name()).unwrap() -= 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_and_threads_of_several_processes_never_overlap() {
    let bed = Bed::shared("all-kinds");
    let sessions = bed.sessions(3).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    let (inside, mut callers) = (Arc::new(Inside::default()), JoinSet::new());
    for (number, session) in sessions.iter().cycle().take(12).enumerate() {
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Read) {
            let (session, inside) = (session.clone(), inside.clone());
            callers.spawn(async move {
                for _ in 0..5 {
                    let session = session.clone();
                    let held = if number % 2 == 0 {
                        kind.acquire(&session).await
                    } else {
                        let options = LockOptions::default();
                        let take =
                            move || kind.take_blocking(&session, options, Wait::Forever).unwrap();
                        spawn_blocking(take).await.unwrap()
                    };
                    inside.enter(kind);
                    tokio::task::yield_now().await;
                    assert!(held.is_valid(), "{kind:?}");
                    inside.leave(kind);
                    // Dropped or released.
                    if number % 3 == 0 { drop(held) } else { held.release().await.unwrap() }
                }
            });
        }
    }
    while let Some(ended) = soon("all come in", callers.join_next()).await {
        ended.unwrap();
    }
    drop(busy);
    bed.end().await;
}
