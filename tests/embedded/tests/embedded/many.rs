//! Many locks of one process: more than one ZooKeeper session.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinHandle;
use zklock::{Embedded, ErrorKind, LockOptions, MutexGuard, Session, SessionState, StopAt};

use crate::support::{client, contenders, on, prompt, store};

const MANY: usize = 1_200;

type Waiting = JoinHandle<MutexGuard>;

/// The ZooKeeper sessions that were opened since.
fn opened(store: &Embedded, before: &HashSet<i64>) -> Vec<i64> {
    store.sessions().into_iter().filter(|id| !before.contains(id)).collect()
}

fn sessions(store: &Embedded) -> HashSet<i64> {
    store.sessions().into_iter().collect()
}

async fn held_by(session: &Session) -> Vec<MutexGuard> {
    let mut held = Vec::new();
    for number in 0..MANY {
        let mutex = session.mutex(format!("many/a{number}")).unwrap();
        held.push(mutex.acquire().await.unwrap());
    }
    held
}

fn waiting_in(session: &Session, locks: usize) -> Vec<Waiting> {
    let wait = |number| {
        let mutex = session.mutex(format!("many/a{number}")).unwrap();
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    (0..locks).map(wait).collect()
}

async fn all_enter(waiting: Vec<Waiting>) {
    for waiting in waiting {
        let entered = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        drop(entered.unwrap().unwrap());
    }
}

/// With more watches than fit into one request the client loses its session at the next reconnect.
#[tokio::test(start_paused = true)]
async fn more_waiters_than_watches_wait_in_several_sessions() {
    let store = Embedded::new();
    let held = held_by(&on(&store)).await;
    let before = sessions(&store);
    let session = on(&store);
    let waiting = waiting_in(&session, MANY);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let watches = |id: &i64| store.faults(*id).pending_watches();
    let watches: Vec<_> = opened(&store, &before).iter().map(watches).collect();
    assert_eq!(watches.len(), 3, "{watches:?}");
    // Who is next watches the one ahead and its own node.
    assert_eq!(watches.iter().sum::<usize>(), 2 * MANY, "{watches:?}");
    assert!(watches.iter().all(|count| *count <= 1_002), "{watches:?}");
    drop(held);
    all_enter(waiting).await;
}

#[tokio::test(start_paused = true)]
async fn more_waiters_than_watches_all_enter_though_there_is_one_connection() {
    let store = Embedded::new();
    let held = held_by(&on(&store)).await;
    let session = Session::embedded_builder(&store).max_connections(1).open().unwrap();
    let waiting = waiting_in(&session, MANY);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // Three quarters of what the client can send again; whom there is no room for looks slowly.
    let most = 96 * 1024 / held[0].node_path().len();
    let watches = faults.pending_watches();
    assert!((most * 9 / 10..=most).contains(&watches), "{watches} of {most}");
    drop(held);
    all_enter(waiting).await;
}

/// A server could not write down the end of the session any more.
#[tokio::test(start_paused = true)]
async fn a_session_holds_no_more_nodes_than_servers_bear_at_its_end() {
    const LONG: usize = 900;
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).max_connections(1).open().unwrap();
    let acquire =
        async |number: usize| session.mutex(format!("{number:0>LONG$}")).unwrap().acquire().await;
    let (mut held, mut views) = (Vec::new(), Vec::new());
    let refused = loop {
        match acquire(held.len()).await {
            Ok(guard) => held.push(guard),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("no room for another node"), "{refused}");
    let bytes = held.iter().map(|guard| guard.node_path().len() + 4).sum::<usize>();
    assert!((1_800_000..1_843_200).contains(&bytes), "{bytes} bytes of {} nodes", held.len());
    // What is deleted counts no more, whoever has a view of it.
    for guard in held.drain(..300) {
        views.push(guard.view());
        guard.release().await.unwrap();
    }
    for number in 0..300 {
        held.push(acquire(number).await.unwrap());
    }
    drop(held);
    // Another connection takes what is too much for one, and when both are full, that is said at once.
    let session = Session::embedded_builder(&store).max_connections(2).open().unwrap();
    let mut held = Vec::new();
    let start = tokio::time::Instant::now();
    let refused = loop {
        let mutex = session.mutex(format!("{:0>LONG$}", held.len())).unwrap();
        match mutex.acquire().await {
            Ok(guard) => held.push(guard),
            Err(refused) => break refused,
        }
    };
    assert!(refused.to_string().contains("no room for another node"), "{refused}");
    let bytes = held.iter().map(|guard| guard.node_path().len() + 4).sum::<usize>();
    assert!((3_600_000..3_686_400).contains(&bytes), "{bytes} bytes of {} nodes", held.len());
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// Requests that promise an order go over one connection: until that is full.
#[tokio::test(start_paused = true)]
async fn fair_acquires_go_to_another_connection_when_theirs_is_full() {
    const LONG: usize = 900;
    const MANY: usize = 2_100;
    let store = Embedded::new();
    let name = format!("{:0>LONG$}", 0);
    let held = on(&store).mutex(&*name).unwrap().acquire().await.unwrap();
    let session = Session::embedded_builder(&store).max_connections(2).open().unwrap();
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    for id in store.sessions() {
        store.faults(id).delay_replies(Duration::from_millis(20));
    }
    let fair = session.mutex(&*name).unwrap().with_options(LockOptions::new().fair(true));
    let waiting: Vec<_> = (0..MANY)
        .map(|_| {
            let fair = fair.clone();
            crate::spawn(async move { fair.acquire().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let refused = waiting.iter().filter(|waiting| waiting.is_finished()).count();
    assert_eq!(refused, 0);
    assert_eq!(contenders(&store, &format!("/zklock/{name}")).await.len(), MANY + 1);
    waiting.iter().for_each(|waiting| waiting.abort());
    drop(held);
}

/// Their nodes are in the queues of others, and are as many bytes.
#[tokio::test(start_paused = true)]
async fn a_session_waits_in_no_more_queues_than_servers_bear_at_its_end() {
    const LONG: usize = 900;
    let store = Embedded::new();
    let (other, session) = (on(&store), Session::embedded_builder(&store).max_connections(1));
    let (session, mut held) = (session.open().unwrap(), Vec::new());
    for number in 0..2_000 {
        let mutex = other.mutex(format!("{number:0>LONG$}")).unwrap();
        held.push(mutex.acquire().await.unwrap());
    }
    // All at once.
    let wait = |number| {
        let mutex = session.mutex(format!("{number:0>LONG$}")).unwrap();
        crate::spawn(async move { mutex.acquire().await })
    };
    let waiting: Vec<_> = (0..held.len()).map(wait).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = waiting.iter().filter(|one| one.is_finished()).count();
    let bytes = (held.len() - refused) * (held[0].node_path().len() + 4);
    assert!((1_800_000..1_843_200).contains(&bytes), "{bytes} bytes, and {refused} are refused");
    drop(held);
    let mut entered = 0;
    for one in waiting {
        entered += usize::from(one.await.unwrap().is_ok());
    }
    assert_eq!(entered + refused, 2_000);
}

/// What was acquired of them is released, and then there is room for that again.
#[tokio::test(start_paused = true)]
async fn whoever_wants_more_permits_than_there_is_room_for_is_told() {
    const LONG: usize = 900;
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).max_connections(2).open().unwrap();
    let (mut held, mut bytes) = (Vec::new(), 0);
    while bytes < 2 * (1_800 - 20) * 1024 {
        let mutex = session.mutex(format!("{:0>LONG$}", held.len())).unwrap();
        let guard = mutex.acquire().await.unwrap();
        bytes += guard.node_path().len() + 4;
        held.push(guard);
    }
    let permits = session.semaphore("p".repeat(LONG), 50).unwrap();
    let acquiring = tokio::time::timeout(Duration::from_secs(60), permits.acquire_many(50));
    let refused = acquiring.await.expect("it goes on and on").unwrap_err();
    assert!(refused.to_string().contains("no room for another node"), "{refused}");
    permits.acquire_many(2).await.unwrap().release().await.unwrap();
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_to_a_full_connection_goes_to_another_one() {
    const LONG: usize = 900;
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).max_connections(2).open().unwrap();
    let mut held = Vec::new();
    while let Ok(guard) = session.mutex(format!("{:0>LONG$}", held.len())).unwrap().acquire().await
    {
        held.push(guard);
    }
    // One of both is given up, because nothing is held there.
    let (first, look) = (session.zookeeper_session().unwrap().id, client(&store).await);
    let mut kept = Vec::new();
    for guard in held {
        match look.get(guard.node_path()).await.unwrap().1.ephemeral_owner == first {
            true => kept.push(guard),
            false => guard.release().await.unwrap(),
        }
    }
    drop(look);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(store.sessions(), [first]);
    let mutex = session.mutex("x".repeat(LONG)).unwrap();
    let guard = mutex.acquire_timeout(Duration::from_secs(5)).await.unwrap();
    assert_eq!(store.sessions().len(), 2);
    drop((guard, kept));
}

#[tokio::test(start_paused = true)]
async fn what_streams_and_limits_watch_is_counted_with_what_waiters_watch() {
    const LONG: usize = 500;
    const EACH: usize = 60;
    let name = |what: &str, number: usize| format!("{what}/{}{number:03}", "n".repeat(LONG));
    let store = Embedded::new();
    let (other, mut held) = (on(&store), Vec::new());
    for number in 0..200 {
        held.push(other.mutex(name("held", number)).unwrap().acquire().await.unwrap());
    }
    let session = Session::embedded_builder(&store).max_connections(1).open().unwrap();
    let (mut streams, mut semaphores) = (Vec::new(), Vec::new());
    for number in 0..EACH {
        let mut events = session.site(name("held", number)).unwrap().events();
        events.next().await.unwrap();
        streams.push(events);
        let printers = format!("printers/{number}");
        let limit = name("limits", number);
        let semaphore = session.semaphore_with_limit_at(printers, &limit, 1).unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
        semaphores.push(semaphore);
    }
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    assert_eq!(faults.pending_watches(), 2 * EACH);
    // Not for the locks whose changes are followed: those would be told.
    let wait = |number| {
        let mutex = session.mutex(name("held", number)).unwrap();
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let waiting: Vec<_> = (EACH..held.len()).map(wait).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (watches, most) = (faults.pending_watches(), 96 * 1024 / LONG);
    assert!((most * 9 / 10..=most).contains(&watches), "{watches} of {most}");
    drop((held, streams, semaphores));
    all_enter(waiting).await;
}

#[tokio::test]
async fn a_session_has_at_least_one_connection() {
    let none = Session::embedded_builder(&Embedded::new()).max_connections(0).open();
    let said = none.unwrap_err().to_string();
    assert!(said.contains("max_connections must be at least 1"), "{said}");
}

/// Eight acquires on their way, their replies held back in the first ZooKeeper session; and a ninth.
async fn busy() -> (Embedded, Session, i64, (Vec<Waiting>, Waiting)) {
    let (store, session) = prompt();
    drop(session.mutex("many/first").unwrap().acquire().await.unwrap());
    let first = session.zookeeper_session().unwrap().id;
    store.faults(first).hold_replies();
    let waiting = waiting_in(&session, 8);
    tokio::task::yield_now().await;
    assert_eq!(sessions(&store), HashSet::from([first]));
    let ninth = session.mutex("many/ninth").unwrap();
    let ninth = crate::spawn(async move { ninth.acquire().await.unwrap() });
    tokio::task::yield_now().await;
    (store, session, first, (waiting, ninth))
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_gets_company_and_loses_it_when_it_is_idle() {
    let (store, session, first, (waiting, ninth)) = busy().await;
    // The ninth has opened another connection, and the tenth uses it.
    let alone = HashSet::from([first]);
    let second = opened(&store, &alone);
    assert_eq!(second.len(), 1);
    let tenth = session.mutex("many/tenth").unwrap().acquire().await.unwrap();
    assert!(!ninth.is_finished());
    store.faults(first).release();
    all_enter(waiting).await;
    drop(ninth.await.unwrap());

    // What is held there keeps it, whoever else is idle.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(opened(&store, &alone), second);
    assert!(tenth.is_valid());
    tenth.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(opened(&store, &alone), Vec::<i64>::new());
    assert_eq!(session.state(), SessionState::Connected);
    drop(session.mutex("many/tenth").unwrap().acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_while_a_released_lock_is_kept_for_its_time() {
    let (store, session, first, (waiting, ninth)) = busy().await;
    let options = LockOptions::default().hold_at_least(Duration::from_secs(600));
    let job = session.mutex("many/job").unwrap().with_options(options);
    job.acquire().await.unwrap().release().await.unwrap();
    store.faults(first).release();
    all_enter(waiting).await;
    drop(ninth.await.unwrap());
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(contenders(&store, "/zklock/many/job").await.len(), 1);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(opened(&store, &HashSet::from([first])), Vec::<i64>::new());
}

/// Its node keeps others out until it is given back.
#[tokio::test(start_paused = true)]
async fn a_connection_stays_while_what_was_lost_there_is_not_given_back() {
    let (store, session, first, (waiting, ninth)) = busy().await;
    let alone = HashSet::from([first]);
    let second = opened(&store, &alone)[0];
    let careful = LockOptions::default().stop_at(StopAt::Suspect);
    let tenth = session.mutex("many/tenth").unwrap().with_options(careful);
    let tenth = tenth.acquire().await.unwrap();
    store.faults(first).release();
    all_enter(waiting).await;
    drop(ninth.await.unwrap());
    store.faults(second).disconnect();
    tenth.lost().await;
    store.faults(second).reconnect();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(contenders(&store, "/zklock/many/tenth").await.len(), 1);
    drop(tenth);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(opened(&store, &alone), Vec::<i64>::new());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_down_is_not_used_beside_one_that_is_up() {
    let (store, session, first, (waiting, ninth)) = busy().await;
    let second = opened(&store, &HashSet::from([first]))[0];
    store.faults(first).release();
    all_enter(waiting).await;
    drop(ninth.await.unwrap());
    store.faults(first).disconnect();
    let mutex = session.mutex("many/tenth").unwrap();
    let guard = mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    let (_, stat) = client(&store).await.get(guard.node_path()).await.unwrap();
    assert_eq!(stat.ephemeral_owner, second);
}

#[tokio::test(start_paused = true)]
async fn guards_of_several_connections_exclude_each_other_and_are_lost_apart() {
    let (store, session, first, (waiting, ninth)) = busy().await;
    let second = opened(&store, &HashSet::from([first]))[0];
    let tenth = session.mutex("many/tenth").unwrap().acquire().await.unwrap();
    store.faults(first).release();
    let mut guards = Vec::new();
    for guard in waiting {
        guards.push(guard.await.unwrap());
    }
    let there = on(&store);
    assert!(there.mutex("many/tenth").unwrap().try_acquire().await.unwrap_err().is_busy());
    store.faults(second).expire();
    tenth.lost().await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
    assert!(ninth.await.unwrap().is_valid());
    drop(there.mutex("many/tenth").unwrap().acquire().await.unwrap());
    // Another ZooKeeper session takes its place, and the session is whole again.
    let mut states = session.states();
    while states.next().await != Some(SessionState::Connected) {}
    session.close().await;
    drop((guards, tenth));
    assert_eq!(store.sessions(), vec![there.zookeeper_session().unwrap().id]);
}

/// Who waits for others sends nothing, wherever it waits.
#[tokio::test(start_paused = true)]
async fn who_waits_does_not_keep_a_connection_busy() {
    let (store, session) = store();
    let elsewhere = on(&store);
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..12 {
        let name = format!("many/only{number}");
        held.push(
            elsewhere
                .mutex(&name)
                .unwrap()
                .with_driver(zklock::layout::OneNode)
                .acquire()
                .await
                .unwrap(),
        );
        let exclusive = session.mutex(&name).unwrap().with_driver(zklock::layout::OneNode);
        waiting.push(crate::spawn(async move { exclusive.acquire().await.unwrap() }));
        tokio::task::yield_now().await;
    }
    let before = sessions(&store);
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(session.mutex("many/other").unwrap().acquire().await.unwrap());
    assert_eq!(opened(&store, &before), Vec::<i64>::new());
    assert_eq!(before.len(), 2);
    drop(held);
    all_enter(waiting).await;
}
