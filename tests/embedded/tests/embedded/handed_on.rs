//! From one process to the next, exactly: after how many answers the next one has what was released, and who is told.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zklock::layout::{Kazoo, OneNode};
use zklock::{AnyLock, LockOptions, MultiLock, Session};

use crate::support::{on, prompt};

/// By so much each answer is late, and each notification.
const LATE: Duration = Duration::from_millis(20);

fn mutex(session: &Session) -> MultiLock {
    several(session, 1)
}

fn one_node(session: &Session) -> MultiLock {
    MultiLock::new([session.mutex("a").unwrap().with_driver(OneNode)]).unwrap()
}

fn three(session: &Session) -> MultiLock {
    several(session, 3)
}

/// So many mutexes as one.
fn several(session: &Session, count: usize) -> MultiLock {
    MultiLock::new((0..count).map(|number| session.mutex(format!("a{number}")).unwrap())).unwrap()
}

fn locks(session: &Session) -> Vec<(&'static str, MultiLock, u32)> {
    let one = |lock: AnyLock| MultiLock::new([lock]).unwrap();
    let fair = LockOptions::new().fair(true);
    let fair = session.mutex("fair").unwrap().with_options(fair);
    let write = AnyLock::Write(session.rw_lock("write").unwrap());
    let permit = session.semaphore("permit", 1).unwrap();
    let kazoos = session.semaphore("kazoo", 1).unwrap().with_driver(Kazoo::default());
    vec![
        ("mutex", mutex(session), 1),
        ("fair", one(fair.into()), 1),
        ("one node", one_node(session), 2),
        ("write", one(write), 2),
        ("permit", one(permit.into()), 2),
        ("kazoos", one(kazoos.into()), 4),
        ("two", several(session, 2), 2),
        ("five", several(session, 5), 5),
    ]
}

/// The notification is one of them; then comes the list or the creation, unless the watch of the own node says that it is
/// there. Of several locks as one, the first is waited for, and each other one is asked for after that.
#[tokio::test(start_paused = true)]
async fn what_is_released_is_the_next_ones_after_so_many_answers() {
    for number in 0..locks(&Session::embedded()).len() {
        for waits_for in [20 * LATE, Duration::from_millis(63_700)] {
            let (store, session) = prompt();
            let (what, held, answers) = locks(&session).swap_remove(number);
            let held = held.acquire().await.unwrap();
            let other = on(&store);
            let waits = locks(&other).swap_remove(number).1;
            let waiting = crate::spawn(async move {
                let _guard = waits.acquire().await.unwrap();
                Instant::now()
            });
            sleep(waits_for).await;
            store.faults(other.zookeeper_session().unwrap().id).delay_replies(LATE);
            let start = Instant::now();
            held.release().await.unwrap();
            let took = waiting.await.unwrap() - start;
            assert_eq!(took, answers * LATE, "{what}, after {waits_for:?}");
        }
    }
}

/// The holder hears of the end of each of its nodes as well.
#[tokio::test(start_paused = true)]
async fn a_release_tells_two_of_those_who_wait_however_many_and_all_who_wait_for_one_node() {
    type Case = (&'static str, fn(&Session) -> MultiLock, usize, fn(usize) -> usize);
    let cases: [Case; 3] = [
        ("mutex", mutex, 1, |waiting| waiting.min(2)),
        ("three", three, 3, |waiting| waiting.min(2)),
        ("one node", one_node, 1, |waiting| waiting),
    ];
    for (what, lock, own, told) in cases {
        for count in [1, 2, 5, 20, 100] {
            let (store, session) = prompt();
            let sessions: Vec<_> = (0..count).map(|_| on(&store)).collect();
            let mut held = lock(&session).acquire().await.unwrap();
            let mut waiting = JoinSet::new();
            for session in &sessions {
                let lock = lock(session);
                waiting.spawn(async move { lock.acquire().await.unwrap() });
            }
            sleep(LATE).await;
            while !waiting.is_empty() {
                let (left, before) = (waiting.len(), store.watch_events());
                held.release().await.unwrap();
                held = waiting.join_next().await.unwrap().unwrap();
                sleep(LATE).await;
                let events = store.watch_events() - before;
                assert_eq!(events, (told(left) + own) as u64, "{what}, {left} of {count} wait");
            }
        }
    }
}
