//! Connections that are cut while something is under way, and come back.

use std::time::{Duration, Instant};

use zklock::{LockName, LockOptions, Session};
use zklock_test_support::{Action, Control, Cut, Matcher, OpCode};

use crate::bed::{Bed, acquiring, soon, until};

#[tokio::test]
async fn a_cut_costs_neither_the_guard_nor_the_place_in_the_queue() {
    let bed = Bed::shared("cut");
    let proxy = bed.proxy();
    let (holder, waiter) = (bed.session_through(&proxy).await, bed.session_through(&proxy).await);
    let busy = bed.busy_while_broken(&[&holder, &waiter]).await;
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;
    let generation = holder.zookeeper_session();
    // Counted once: the proxy may not have heard yet of the end of one that was just cut.
    let open = u64::try_from(proxy.connections()).unwrap();
    for way in [Cut::Fin, Cut::Reset, Cut::Fin] {
        let all = open + proxy.connections_total();
        proxy.cut(way);
        let start = Instant::now();
        until("all are back", || (proxy.connections_total() >= all).then_some(())).await;
        println!("{way:?}: all are back after {:?}", start.elapsed());
        assert!(guard.is_valid() && !waiting.is_finished());
        assert_eq!(bed.contenders("a"), queue);
    }
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(guard.node_path().ends_with(&queue[1]));
    assert_eq!(holder.zookeeper_session(), generation);
    guard.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_release_elsewhere_during_an_outage_is_seen_after_it() {
    let bed = Bed::shared("outage");
    let proxy = bed.proxy();
    let (holder, waiter) = (bed.session().await, bed.session_through(&proxy).await);
    for way in [Cut::Fin, Cut::Reset] {
        let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
        let waiting = acquiring(&waiter, "a");
        bed.until_contenders("a", 2).await;
        proxy.refuse(true);
        proxy.cut(way);
        guard.release().await.unwrap();
        until("the outage is noticed", || (!waiter.is_ready()).then_some(())).await;
        assert!(!waiting.is_finished());
        proxy.refuse(false);
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

/// A holder and a waiter behind one address that is away for a while; answers how long after it is
/// back the waiter comes in, with the same ZooKeeper sessions as before.
async fn outage(root: &str, session_timeout: Duration, outage: Duration) -> Duration {
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let builder = bed.builder_at(&proxy.addr()).session_timeout(session_timeout);
        sessions.push(bed.adopt(builder.connect().await.unwrap()));
    }
    let busy = bed.busy_while_broken(&[&sessions[0], &sessions[1]]).await;
    let before: Vec<_> = sessions.iter().map(Session::zookeeper_session).collect();
    let guard = sessions[0].mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&sessions[1], "a");
    bed.until_contenders("a", 2).await;
    proxy.refuse(true);
    proxy.cut(Cut::Reset);
    tokio::time::sleep(outage).await;
    assert!(guard.is_valid());
    proxy.refuse(false);
    let start = Instant::now();
    soon("the release", guard.release()).await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    let took = start.elapsed();
    println!("after an outage of {outage:?} the next comes in after {took:?}");
    assert!(before.into_iter().eq(sessions.iter().map(Session::zookeeper_session)));
    drop(busy);
    bed.end().await;
    took
}

#[tokio::test]
async fn an_outage_of_seconds_costs_neither_the_guard_nor_the_queue() {
    outage("outage-3", Duration::from_secs(12), Duration::from_millis(3_500)).await;
}

#[tokio::test]
async fn after_a_longer_outage_the_next_comes_in_soon() {
    let took = outage("outage-7", Duration::from_secs(20), Duration::from_secs(7)).await;
    // On an idle machine it takes less than a second. The client alone would have doubled its
    // rests and come back after six.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_notification_that_never_comes_only_delays() {
    let bed = Bed::shared("lost-event");
    let proxy = bed.proxy();
    // The slow look at the queue comes once per session timeout.
    let timeout = Duration::from_secs(5);
    let waiter = bed.builder_at(&proxy.addr()).session_timeout(timeout).connect().await.unwrap();
    let (holder, waiter) = (bed.session().await, bed.adopt(waiter));
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&waiter, "a");
    // The holder's node, and its own.
    until("the waiter watches", || (bed.watched_by(&waiter).len() == 2).then_some(())).await;
    let control = Control::of(bed.server());
    let lost = proxy.on(Matcher::notification(), Action::Drop);
    guard.release().await.unwrap();
    let start = Instant::now();
    let guard = soon("the lock", waiting).await.unwrap();
    control.within_answers("the lock without its notification", start.elapsed(), timeout, 2);
    assert_eq!(lost.hits(), 1);
    lost.release();
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_limit_whose_notification_never_comes_is_read_again() {
    let bed = Bed::shared("lost-limit");
    let proxy = bed.proxy();
    let timeout = Duration::from_secs(5);
    let waiter = bed.builder_at(&proxy.addr()).session_timeout(timeout).connect().await.unwrap();
    let (holder, waiter) = (bed.session().await, bed.adopt(waiter));
    let semaphore = |session: &Session| {
        session.semaphore_with_limit_at(LockName::new("a").unwrap(), "limit", 1).unwrap()
    };
    let held = semaphore(&holder).acquire().await.unwrap();
    let semaphore = semaphore(&waiter);
    let waiting = tokio::spawn(async move { soon("a permit", semaphore.acquire()).await.unwrap() });
    let (limit, mut raw) = (bed.path("limit"), bed.raw());
    until("it waits, and watches the limit", || {
        let waits = raw.children(&bed.path("a/leases")).unwrap_or_default().len() == 2;
        (waits && bed.watched_by(&waiter).contains(&limit)).then_some(())
    })
    .await;
    let lost = proxy.on(Matcher::notification().path(&limit), Action::Drop);
    let control = Control::of(bed.server());
    raw.set_data(&limit, &[0, 0, 0, 2]).unwrap();
    let start = Instant::now();
    let permit = waiting.await.unwrap();
    control.within_answers("a limit without its notification", start.elapsed(), timeout, 4);
    assert_eq!(lost.hits(), 1);
    assert!(held.is_valid());
    lost.release();
    permit.release().await.unwrap();
    held.release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_node_does_not_linger_where_the_notification_of_a_contender_never_comes() {
    let bed = Bed::shared("lost-contender");
    let proxy = bed.proxy();
    let timeout = Duration::from_secs(5);
    let lingering = bed.builder_at(&proxy.addr()).session_timeout(timeout).connect().await.unwrap();
    let (lingering, other) = (bed.adopt(lingering), bed.session().await);
    let options = LockOptions::new().linger(Duration::from_secs(3600));
    let mutex = lingering.mutex("a").unwrap().with_options(options);
    let (guard, directory) = (mutex.acquire().await.unwrap(), bed.path("a"));
    let lists = Matcher::reply(OpCode::GetChildren).or(OpCode::GetChildren2);
    let looked = proxy.on(lists, Action::Pass);
    guard.release().await.unwrap();
    until("somebody watches for contenders", || (looked.hits() > 0).then_some(())).await;
    let lost = proxy.on(Matcher::notification().path(&directory), Action::Drop);
    let (control, start) = (Control::of(bed.server()), Instant::now());
    let guard = soon("the lock", other.mutex("a").unwrap().acquire()).await.unwrap();
    control.within_answers("a contender without its notification", start.elapsed(), timeout, 4);
    assert!(lost.hits() > 0);
    lost.release();
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn no_node_is_made_while_the_connection_is_down() {
    let bed = Bed::shared("down");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let mutex = session.mutex("a").unwrap();
    bed.keep_directory("a");
    proxy.refuse(true);
    proxy.cut(Cut::Reset);
    until("the outage is noticed", || (!session.is_ready()).then_some(())).await;
    for _ in 0..5 {
        let error = mutex.acquire_timeout(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    let created = proxy.on(Matcher::request(OpCode::Create2), Action::Pass);
    proxy.refuse(false);
    until("it is back", || session.is_ready().then_some(())).await;
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(created.hits(), 1, "only the last");
    bed.end().await;
}

/// As long as a name may well be, in bytes.
const LONG_NAME: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_on_long_names_do_not_cost_the_session_at_a_reconnect() {
    const LOCKS: usize = 300;
    let bed = Bed::shared("long-names");
    let proxy = bed.proxy();
    let name = |number: usize| format!("{}{number:04}", "n".repeat(LONG_NAME));
    let holder = bed.session().await;
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(holder.mutex(name(number)).unwrap().acquire().await.unwrap());
    }
    let builder = bed.builder_at(&proxy.addr()).max_connections(1);
    let session = bed.adopt(builder.connect().await.unwrap());
    let before = session.zookeeper_session().unwrap();
    // These watch, too.
    let sites: Vec<_> = (0..20).map(|number| session.site(name(number)).unwrap()).collect();
    let mut streams: Vec<_> = sites.iter().map(|site| site.events()).collect();
    for events in &mut streams {
        soon("an event", events.next()).await.unwrap();
    }
    let waiting: Vec<_> = (0..LOCKS).map(|number| acquiring(&session, &name(number))).collect();
    until("all wait", || {
        let sessions = bed.server().sessions();
        let nodes = sessions.iter().find(|own| own.id == before.id).map(|own| own.ephemerals.len());
        (nodes == Some(LOCKS)).then_some(())
    })
    .await;
    until("they watch", || (bed.watched().len() > 100).then_some(())).await;
    for way in [Cut::Fin, Cut::Reset] {
        proxy.cut(way);
        let mutex = session.mutex("short").unwrap();
        soon("it is back", mutex.acquire()).await.unwrap().release().await.unwrap();
        assert_eq!(session.zookeeper_session(), Some(before), "{way:?}");
    }
    drop(streams);
    held.into_iter().for_each(drop);
    for waiting in waiting {
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

/// Its requests wait for the connection, and count from when they began to wait.
#[tokio::test]
async fn a_step_down_survives_a_cut_that_the_writer_survives() {
    const T: Duration = Duration::from_secs(12);
    let bed = Bed::shared("cut-stepping-down");
    let proxy = bed.proxy();
    let session =
        bed.adopt(bed.builder_at(&proxy.addr()).session_timeout(T).connect().await.unwrap());
    let lock = session.rw_lock("a").unwrap();
    let writing = soon("the lock", lock.write()).await.unwrap();
    let creation = Matcher::request(OpCode::Create2).path("__READ__").nth(1);
    let cut = proxy.on(creation, Action::DropAndCut(Cut::Fin));
    proxy.refuse(true);
    let mut stepping_down = tokio::spawn(writing.downgrade());
    // For longer than a commit makes a grant possible, and not as long as the lease.
    let away = tokio::time::timeout(T / 3 + Duration::from_millis(200), &mut stepping_down);
    assert!(away.await.is_err());
    assert_eq!(cut.hits(), 1);
    proxy.refuse(false);
    let reading = soon("the downgrade", stepping_down).await.unwrap().unwrap();
    assert!(reading.is_valid());
    assert_eq!(bed.contenders_by("a", "__READ__").len(), 1);
    assert_eq!(bed.contenders_by("a", "__WRIT__").len(), 0);
    reading.release().await.unwrap();
    bed.end().await;
}
