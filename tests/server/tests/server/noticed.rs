//! What others do to a node, and when its holder knows: for locks of every kind, on a busy day.

use std::time::{Duration, Instant};

use zklock::layout::{Numbered, OneNode};
use zklock::{ErrorKind, LockOptions};
use zklock_test_support::{Action, BOUND, Control, CreateMode, Direction, Matcher, OpCode};

use crate::bed::{Bed, soon, until};
use crate::kinds::{Held, KINDS, Kind, Wait, had_by_another, lost};
use crate::late_answers::never_silent;

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A heartbeat asks for all, and reads what is gone.
const TOLD: u32 = 2;

/// So long that no heartbeat comes while a test looks.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_deletion_is_known_within_a_heartbeat() {
    let bed = Bed::shared("lost-deleted");
    let (holder, other) = (bed.session_of(T).await, bed.session().await);
    let busy = bed.busy(&[&holder]).await;
    for kind in KINDS {
        let held = kind.acquire(&holder).await;
        let waiting = kind.rival().granted(&other);
        bed.until_awaited(kind, &held, &other).await;
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let start = Instant::now();
        let took = lost(kind, &held, start).await;
        control.within_answers(&format!("{kind:?} deleted at once"), took, HEARTBEAT, TOLD);
        had_by_another(kind, held, waiting, (&control, start)).await;
    }
    drop(busy);
    bed.end().await;
}

/// The nodes of a holder, in the order of their paths: of several permits, or of several locks as one.
fn nodes(bed: &Bed, held: &Held) -> Vec<String> {
    let directories = held.paths().into_iter().map(|path| path.rsplit_once('/').unwrap().0);
    let mut nodes: Vec<_> = directories.flat_map(|directory| bed.below(directory)).collect();
    nodes.sort();
    nodes
}

/// A guard of several nodes is lost with the first of them that goes, whichever that is, and asked to let
/// go where one of them is.
#[tokio::test]
async fn what_is_done_to_any_of_several_nodes_is_known_within_a_heartbeat() {
    let bed = Bed::shared("lost-any");
    let (holder, other, mut raw) = (bed.session_of(T).await, bed.session().await, bed.raw());
    let busy = bed.busy(&[&holder]).await;
    let kinds = [Kind::Permits, Kind::Multi];
    for (kind, number) in kinds.into_iter().flat_map(|kind| [(kind, 0), (kind, 1)]) {
        let held = kind.acquire(&holder).await;
        let nodes = nodes(&bed, &held);
        assert_eq!(nodes.len(), 2, "{kind:?}: {nodes:?}");
        let control = Control::of(bed.server());
        raw.set_data(&nodes[number], b"__REVOKE__").unwrap();
        let start = Instant::now();
        soon("the wish", held.revoked()).await;
        control.within(&format!("{kind:?}, node {number} revoked"), start.elapsed(), HEARTBEAT);
        assert!(held.is_valid());
        held.release().await.unwrap();
        let held = kind.acquire(&holder).await;
        let control = Control::of(bed.server());
        bed.delete(&self::nodes(&bed, &held)[number]);
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?}, node {number} deleted"), took, HEARTBEAT);
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
        soon("the next", kind.acquire(&other)).await.release().await.unwrap();
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

/// Of a contender whose list was not answered and is asked for again: its name is in it.
#[tokio::test]
async fn a_lock_is_not_granted_by_the_name_of_a_node_that_another_has_made_anew() {
    let bed = Bed::shared("granted-anew");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let mutex = session.mutex("numbered").unwrap().with_driver(Numbered::dlock());
    let list = Matcher::reply(OpCode::GetChildren).path(&bed.path("numbered")).first(1);
    mutex.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..3 {
        let unheard = proxy.on(list.clone(), Action::Drop);
        let asking = mutex.clone();
        let asking = tokio::spawn(async move { asking.acquire_timeout(3 * HEARTBEAT).await });
        until("the list is lost", || (unheard.hits() == 1).then_some(())).await;
        let node = until("its node", || bed.contenders_by("numbered", "").pop()).await;
        let (mut other, path) = (bed.raw(), format!("{}/{node}", bed.path("numbered")));
        other.delete(&path).unwrap();
        other.create(&path, b"", CreateMode::Ephemeral).unwrap();
        let refused = soon("the answer", asking).await.unwrap();
        let is_busy = refused.as_ref().is_err_and(|error| error.is_busy());
        assert!(is_busy, "{path} is held by another: {refused:?}");
        other.close().unwrap();
        unheard.release();
    }
    drop(busy);
    bed.end().await;
}

/// A node of the same name that another has made between two heartbeats is as new, and no watch tells.
#[tokio::test]
async fn a_node_that_another_has_made_anew_is_known_within_a_heartbeat() {
    let bed = Bed::shared("lost-anew");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let deaf = proxy.on(Matcher::notification(), Action::Drop);
    let layouts = [
        ("one", session.mutex("one").unwrap().with_driver(OneNode)),
        ("numbered", session.mutex("numbered").unwrap().with_driver(Numbered::dlock())),
    ];
    for held_for in [0, 3, 7] {
        for (name, mutex) in &layouts {
            let guard = soon("the lock", mutex.acquire()).await.unwrap();
            tokio::time::sleep(held_for * HEARTBEAT / 5).await;
            assert!(guard.is_valid());
            let (mut other, control) = (bed.raw(), Control::of(bed.server()));
            other.delete(guard.node_path()).unwrap();
            other.create(guard.node_path(), b"", CreateMode::Ephemeral).unwrap();
            let start = Instant::now();
            soon("the loss", guard.lost()).await;
            control.within(&format!("{name} made anew"), start.elapsed(), HEARTBEAT);
            drop(guard);
            // And what is the other's stays.
            tokio::time::sleep(HEARTBEAT / 5).await;
            assert_eq!(bed.contenders_by(name, "").len(), 1, "{name}");
            other.close().unwrap();
        }
    }
    deaf.release();
    drop(busy);
    bed.end().await;
}

/// A node that was answered late may be another's by then.
#[tokio::test]
async fn nobody_enters_by_a_node_that_another_has_made_anew() {
    const T: Duration = Duration::from_secs(12);
    Bed::measured("granted-late", async |bed| {
        let (proxy, control) = (bed.proxy(), Control::timers());
        let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
        let session = bed.adopt(builder.connect().await.unwrap());
        let busy = bed.busy_in_one_lane_while_broken(&[&session]).await;
        let mutex = session.mutex("a").unwrap().with_driver(OneNode);
        soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
        bed.keep_directory("a");
        let path = bed.path("a/lock");
        let (mut other, connections) = (bed.raw(), proxy.connections_total());
        let looks = tokio::spawn(never_silent(session.clone()));
        // Too late for a grant without another commit. But answers come all the time, and each is only a
        // little later than the one before: the client library leaves a connection that is silent.
        let late = T / 3 + BOUND;
        for part in 1..=6 {
            proxy.delay_one_way(Direction::ToClient, late * part / 6);
            // Those that are under way become later, too: until some have arrived.
            tokio::time::sleep(late / 3).await;
        }
        let start = Instant::now();
        let acquired = async move { soon("the lock", mutex.acquire()).await.unwrap() };
        let acquired = tokio::spawn(acquired);
        let was_left = || proxy.connections_total() != connections;
        let mut is_there = || other.exists(&path, false).unwrap();
        until("its node is there", || (is_there() || was_left()).then_some(())).await;
        if !was_left() {
            other.delete(&path).unwrap();
            other.create(&path, b"", CreateMode::Ephemeral).unwrap();
            tokio::time::sleep_until((start + late + HEARTBEAT / 2).into()).await;
        }
        // What comes on another connection shows nothing.
        let left = was_left().then(|| control.too_late("the connection was left"));
        proxy.heal();
        if left.is_none() {
            let watched = || bed.watched().contains(&path).then_some(());
            let inside = || acquired.is_finished().then_some(());
            until("it waits, or is inside", || watched().or(inside())).await;
            assert!(!acquired.is_finished(), "two are inside");
        }
        other.close().unwrap();
        acquired.await.unwrap().release().await.unwrap();
        looks.abort();
        drop(busy);
        bed.end().await;
        left.into_iter().collect()
    })
    .await;
}

/// After a long wait, a lock is granted only when ZooKeeper has said once more that the node is there. Other
/// answers meanwhile do not say it.
#[tokio::test]
async fn nobody_enters_by_a_question_that_was_not_answered() {
    const T: Duration = Duration::from_secs(12);
    let bed = Bed::shared("granted-unanswered");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
    let (session, other) = (bed.adopt(builder.connect().await.unwrap()), bed.session().await);
    // Beside it: with answers to its own commits it would be granted the lock before it asks.
    let busy = bed.busy(&[]).await;
    // Whoever waits for a mutex watches its own node.
    let [lock, theirs] = [&session, &other].map(|session| session.rw_lock("a").unwrap());
    let beside = session.mutex("b").unwrap();
    let ahead = theirs.write().await.unwrap();
    let acquired = tokio::spawn(async move { soon("the lock", lock.write()).await.unwrap() });
    bed.until_nodes("a", 2).await;
    let path = bed.path(&format!("a/{}", bed.contenders_by("a", "__WRIT__")[1]));
    until("it waits", || bed.is_watched_beside(&other, ahead.node_path()).then_some(())).await;
    tokio::time::sleep(session.timing().unwrap().lease + BOUND).await;
    let unheard = proxy.on(Matcher::request(OpCode::Multi).path(&path), Action::Drop);
    ahead.release().await.unwrap();
    until("it asks", || (unheard.hits() > 0).then_some(())).await;
    bed.delete(&path);
    let next = soon("the next", theirs.write()).await.unwrap();
    // For so long it waits for that answer, and asks again.
    let limit = Instant::now() + T + HEARTBEAT;
    while Instant::now() < limit && !acquired.is_finished() {
        soon("one beside", beside.acquire()).await.unwrap().release().await.unwrap();
        tokio::time::sleep(HEARTBEAT / 10).await;
    }
    // On a machine that stands still for long, both may be lost.
    assert!(!acquired.is_finished() || !next.is_valid(), "two are inside");
    unheard.release();
    drop(next);
    let guard = acquired.await.unwrap();
    let nodes = bed.below(&bed.path("a"));
    assert!(nodes.iter().any(|node| node == guard.node_path()) || !guard.is_valid(), "{nodes:?}");
    drop((guard, busy));
    bed.end().await;
}

/// Whoever steps down has no guard meanwhile that could tell.
#[tokio::test]
async fn a_step_down_that_takes_long_is_told_of_a_loss_in_time() {
    let bed = Bed::shared("lost-stepping-down");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let (busy, lock) = (bed.busy_while_broken(&[&session]).await, session.rw_lock("a").unwrap());
    let lease = session.timing().unwrap().lease;
    for (what, promised) in [("its node deleted", HEARTBEAT), ("silence", lease)] {
        let writing = soon("the lock", lock.write()).await.unwrap();
        let deletion = Matcher::request(OpCode::Delete).path(writing.node_path());
        let deletion = proxy.on(deletion, Action::Drop);
        let stepping_down = tokio::spawn(writing.downgrade());
        until("it has a reader's node", || (deletion.hits() > 0).then_some(())).await;
        let (control, start) = (Control::of(bed.server()), Instant::now());
        if what == "silence" {
            proxy.black_hole(true);
        } else {
            let reader = bed.contenders_by("a", "__READ__").remove(0);
            bed.delete(&bed.path(&format!("a/{reader}")));
        }
        let told = soon("its end", stepping_down).await.unwrap();
        control.within(&format!("{what} while it steps down"), start.elapsed(), promised);
        assert_eq!(told.unwrap_err().error().kind(), ErrorKind::Lost, "{what}");
        proxy.heal();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_held_for_longer_than_a_heartbeat() {
    Bed::measured("lost-deleted-late", async |bed| {
        const T: Duration = Duration::from_secs(12);
        let session = bed.session_of(T).await;
        let busy = bed.busy(&[&session]).await;
        let mut all = Vec::new();
        for kind in KINDS {
            // At different times between two heartbeats: not every one of them is just about to come.
            tokio::time::sleep(T / 30).await;
            all.push((kind, kind.acquire(&session).await, Instant::now()));
        }
        let mut late = Vec::new();
        for (kind, held, granted) in all {
            tokio::time::sleep_until((granted + T / 4 + BOUND).into()).await;
            assert!(held.is_valid(), "{kind:?}");
            let control = Control::of(bed.server());
            bed.delete(held.node_path());
            let took = lost(kind, &held, Instant::now()).await;
            late.extend(control.late(&format!("{kind:?} deleted later"), took, Duration::ZERO, 1));
        }
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// The second in the queue watches its own node, and goes on with that when it is granted the lock.
#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_had_to_wait_for_a_mutex() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let (first, second) = (bed.session_of(LONG).await, bed.session_of(LONG).await);
    let busy = bed.busy(&[&second]).await;
    for kind in [Kind::Mutex, Kind::Fair, Kind::Multi] {
        let ahead = kind.acquire(&first).await;
        let waiting = kind.acquiring(&second);
        let below = format!("{}/", bed.path(kind.name()));
        until("it waits", || {
            let mut watched = bed.watched().into_iter();
            watched.any(|path| path.starts_with(&below) && path != ahead.node_path()).then_some(())
        })
        .await;
        ahead.release().await.unwrap();
        let held = waiting.await.unwrap();
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} deleted after a wait"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

/// The third in the queue watches the first, and is the holder when both ahead have gone.
#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_was_third_when_the_second_gave_up() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let (first, second, third) =
        (bed.session_of(LONG).await, bed.session_of(LONG).await, bed.session_of(LONG).await);
    let busy = bed.busy(&[&third]).await;
    for kind in [Kind::Mutex, Kind::Fair] {
        let ahead = kind.acquire(&first).await;
        let below = format!("{}/", bed.path(kind.name()));
        let nodes = || bed.ephemerals().into_iter().filter(|path| path.starts_with(&below)).count();
        let between = kind.acquiring(&second);
        until("the second waits", || (nodes() == 2).then_some(())).await;
        let waiting = kind.acquiring(&third);
        until("the third waits", || (nodes() == 3).then_some(())).await;
        // Until it has listed the queue, and watches the first.
        tokio::time::sleep(Duration::from_millis(300)).await;
        between.abort();
        until("the second gave up", || (nodes() == 2).then_some(())).await;
        ahead.release().await.unwrap();
        let held = waiting.await.unwrap();
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} deleted after a wait as third"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

/// Its turn comes while it is away, so that it learns of it by a list, and the watches from before are gone.
#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_waited_when_its_connection_was_lost() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let proxy = bed.proxy();
    let (first, second) = (bed.session_of(LONG).await, bed.session_of_through(LONG, &proxy).await);
    let busy = bed.busy_while_broken(&[&second]).await;
    for kind in [Kind::Mutex, Kind::Fair] {
        let ahead = kind.acquire(&first).await;
        let below = format!("{}/", bed.path(kind.name()));
        let nodes = || bed.ephemerals().into_iter().filter(|path| path.starts_with(&below)).count();
        let waiting = kind.acquiring(&second);
        until("the second waits", || (nodes() == 2).then_some(())).await;
        // Until it watches both.
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.refuse(true);
        proxy.cut_reset();
        ahead.release().await.unwrap();
        proxy.heal();
        let held = waiting.await.unwrap();
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} deleted after a reconnect"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

/// Its node was not watched yet, and goes with the step to a reader.
#[tokio::test]
async fn a_wish_that_a_writer_has_not_heard_of_is_known_to_the_reader_that_it_becomes() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let (session, mut raw) = (bed.session_of(LONG).await, bed.raw());
    let busy = bed.busy(&[&session]).await;
    for fair in [false, true] {
        let options = LockOptions::default().fair(fair);
        let lock = session.rw_lock("wished").unwrap().with_options(options);
        let writer = soon("the lock", lock.write()).await.unwrap();
        raw.set_data(writer.node_path(), b"__REVOKE__").unwrap();
        let reader = soon("the step down", writer.downgrade()).await.unwrap();
        assert!(reader.is_valid() && reader.is_revoked(), "fair: {fair}");
        reader.release().await.unwrap();
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_is_revocable() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let session = bed.session_of(LONG).await;
    let busy = bed.busy(&[&session]).await;
    for kind in KINDS {
        let options = LockOptions::default().revocable(true);
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} revocable and deleted"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

/// Whichever of several permits it is, or of several locks as one.
#[tokio::test]
async fn what_is_done_to_any_of_several_nodes_is_known_at_once_to_who_is_revocable() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let (session, mut raw) = (bed.session_of(LONG).await, bed.raw());
    let busy = bed.busy(&[&session]).await;
    let options = LockOptions::default().revocable(true);
    let kinds = [Kind::Permits, Kind::Multi];
    for (kind, number) in kinds.into_iter().flat_map(|kind| [(kind, 0), (kind, 1)]) {
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        let control = Control::of(bed.server());
        raw.set_data(&nodes(&bed, &held)[number], b"__REVOKE__").unwrap();
        let start = Instant::now();
        soon("the wish", held.revoked()).await;
        let what = format!("{kind:?} revocable, node {number}");
        control.within(&format!("{what} revoked"), start.elapsed(), Duration::ZERO);
        assert!(held.is_valid());
        held.release().await.unwrap();
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        let control = Control::of(bed.server());
        bed.delete(&nodes(&bed, &held)[number]);
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{what} deleted"), took, Duration::ZERO);
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

/// Who acquires a lock again within a hold that is not revocable.
#[tokio::test]
async fn what_is_done_to_a_node_is_known_at_once_to_who_is_revocable_inside_another_hold() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let (session, mut raw) = (bed.session_of(LONG).await, bed.raw());
    let busy = bed.busy(&[&session]).await;
    let options = LockOptions::default().revocable(true);
    // Permits are not taken again.
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Exclusive, Kind::Read, Kind::Write];
    let nodes_of = kinds.map(|kind| (kind, 0)).into_iter();
    for (kind, number) in nodes_of.chain([0, 1].map(|number| (Kind::Multi, number))) {
        let what = format!("{kind:?} revocable inside, node {number}");
        for is_deleted in [false, true] {
            let outer = kind.acquire(&session).await;
            let inner = outer.scope(kind.take(&session, options, Wait::Forever)).await.unwrap();
            let node = nodes(&bed, &outer).swap_remove(number);
            let control = Control::of(bed.server());
            if is_deleted {
                bed.delete(&node);
                let took = lost(kind, &inner, Instant::now()).await;
                control.within(&format!("{what} deleted"), took, Duration::ZERO);
            } else {
                raw.set_data(&node, b"__REVOKE__").unwrap();
                let start = Instant::now();
                soon("the wish", inner.revoked()).await;
                control.within(&format!("{what} revoked"), start.elapsed(), Duration::ZERO);
            }
            assert_eq!(inner.is_valid() && outer.is_valid(), !is_deleted, "{what}");
            // The last one that holds it says so.
            inner.release().await.unwrap();
            assert_eq!(outer.release().await.is_ok(), !is_deleted, "{what}");
        }
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

/// Asks the holder of each kind to let go; it hears of it in time.
async fn wish(session_timeout: Duration, revocable: bool, promised: Duration) {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let mut raw = bed.raw();
    let session = bed.session_of(session_timeout).await;
    let busy = bed.busy(&[&session]).await;
    for kind in KINDS {
        let options = LockOptions::default().revocable(revocable);
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        let control = Control::of(bed.server());
        raw.set_data(held.node_path(), b"__REVOKE__").unwrap();
        let start = Instant::now();
        soon("the wish", held.revoked()).await;
        control.within(&format!("{kind:?} revoked"), start.elapsed(), promised);
        assert!(held.is_valid());
        held.release().await.unwrap();
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_wish_is_heard_at_once_by_who_is_revocable() {
    wish(LONG, true, Duration::ZERO).await;
}

#[tokio::test]
async fn a_wish_is_heard_within_a_heartbeat_by_who_is_not() {
    wish(T, false, HEARTBEAT).await;
}
