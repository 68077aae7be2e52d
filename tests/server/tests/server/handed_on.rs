//! From one process to the next, on a busy day: how soon the next one has what was released, and who is told.
//! `tests/embedded/…/handed_on.rs` has the exact number of answers.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::layout::OneNode;
use zklock::{MultiGuard, MultiLock, Session};
use zklock_test_support::{Control, Late, OpCode};

use crate::bed::{Bed, soon, until};
use crate::kinds::NEXT;

/// So many sessions wait.
const WAITING: usize = 6;

/// The members of a multi-lock.
const MEMBERS: u32 = 3;

/// What is handed on. A multi-lock may have one member.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lock {
    Mutex,
    OneNode,
    Multi,
}

impl Lock {
    fn of(self, session: &Session) -> MultiLock {
        let mutex = |number: u32| session.mutex(self.name(number)).unwrap();
        match self {
            Lock::Mutex => MultiLock::new([mutex(0)]),
            Lock::OneNode => MultiLock::new([mutex(0).with_driver(OneNode)]),
            Lock::Multi => MultiLock::new((0..MEMBERS).map(mutex)),
        }
        .unwrap()
    }

    fn name(self, member: u32) -> String {
        format!("{self:?}/{member}")
    }

    /// The answers that the next one and the one before it need, one after the other: to each deletion, to what grants
    /// the first member, and to the creation and the list of each other one.
    fn answers(self) -> u32 {
        let members = if self == Lock::Multi { MEMBERS } else { 1 };
        members + NEXT + 2 * (members - 1)
    }

    /// How many sessions that wait for it are told of a release, at most.
    fn told(self, waiting: usize) -> usize {
        if self == Lock::OneNode { waiting } else { 2 }
    }

    /// Waits in a session; answers when it was granted, too.
    fn granted(self, session: &Session) -> JoinHandle<(MultiGuard, Instant)> {
        let lock = self.of(session);
        tokio::spawn(async move {
            let guard = soon("the lock", lock.acquire()).await.unwrap();
            (guard, Instant::now())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_is_the_next_ones_at_once_and_few_are_told() {
    Bed::measured("handed-on", async |bed| {
        let (proxy, mut sessions) = (bed.proxy(), Vec::new());
        for _ in 0..=WAITING {
            let builder = bed.builder_at(&proxy.addr()).max_connections(1);
            sessions.push(bed.adopt(builder.connect().await.unwrap()));
        }
        let busy = bed.busy_in_one_lane(&[&sessions[0], &sessions[1]]).await;
        let mut late: Vec<Late> = Vec::new();
        for lock in [Lock::Mutex, Lock::OneNode, Lock::Multi] {
            let mut held = lock.of(&sessions[0]).acquire().await.unwrap();
            let below = format!("{}/", bed.path(&lock.name(0)));
            let waits = async |session: &Session| {
                let waits = || bed.watched_by(session).iter().any(|path| path.starts_with(&below));
                until("it waits", || waits().then_some(())).await;
            };
            let mut waiting = Vec::new();
            for session in &sessions[1..] {
                waiting.push((session, lock.granted(session)));
                waits(session).await;
            }
            while !waiting.is_empty() {
                // Whoever was told of the last release watches anew.
                for (session, _) in &waiting {
                    waits(session).await;
                }
                proxy.clear_log();
                let control = Control::of(bed.server());
                let paths: Vec<_> =
                    held.members().iter().map(|member| member.node_path().to_owned()).collect();
                let start = Instant::now();
                held.release().await.unwrap();
                // Nobody says who is the next one of those who wait for one node.
                let next = until("the next", || {
                    waiting.iter().position(|(_, waiting)| waiting.is_finished())
                })
                .await;
                let left = waiting.len();
                let ids: Vec<_> =
                    waiting.iter().map(|(one, _)| one.zookeeper_session().unwrap().id).collect();
                let (_, granted) = waiting.swap_remove(next);
                let (guard, at) = granted.await.unwrap();
                let (what, took) = (format!("{lock:?}, {left} wait"), at - start);
                late.extend(control.late(&what, took, Duration::ZERO, lock.answers()));
                let told = proxy.log().into_iter().filter(|frame| {
                    let is_of = |path: &String| paths.contains(path);
                    frame.opcode == OpCode::Notification
                        && ids.contains(&frame.session)
                        && frame.path.as_ref().is_some_and(is_of)
                });
                let told = told.count();
                assert!(told >= 1 && told <= lock.told(left), "{what}: {told} are told");
                assert!(guard.is_valid());
                held = guard;
            }
            held.release().await.unwrap();
        }
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}
