//! Strangers that delete nodes and write to them, on a busy day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zklock::{LockOptions, StopAt};
use zklock_test_support::{Action, Control, Matcher};

use crate::bed::{Bed, soon, until};
use crate::kinds::{KINDS, lost};

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// So long that no heartbeat comes while a test looks.
const LONG: Duration = Duration::from_secs(120);

/// Another of its process has the lock now, by a node of the same ZooKeeper session at the same path. No
/// heartbeat has come, and no watch has told.
#[tokio::test]
async fn a_lock_that_another_of_its_session_was_granted_by_a_node_at_its_path_is_lost_at_once() {
    const ROUNDS: u32 = 3;
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let proxy = bed.proxy();
    let session = bed.session_of_through(LONG, &proxy).await;
    let busy = bed.busy(&[&session]).await;
    let deaf = proxy.on(Matcher::notification().path("/one/"), Action::Drop);
    // Callers with other options do not hand it on to each other.
    let [patient, careful] = [StopAt::Lost, StopAt::Suspect].map(|stop_at| {
        let options = LockOptions::default().stop_at(stop_at);
        session.mutex("one").unwrap().with_driver(zklock::layout::OneNode).with_options(options)
    });
    let owner = |path: &str| {
        let owns = |held: &String| held == path;
        bed.server().sessions().iter().find(|one| one.ephemerals.iter().any(owns)).map(|one| one.id)
    };
    let (mut same, limit) = (0, Instant::now() + crate::bed::PATIENCE);
    while same < ROUNDS {
        assert!(Instant::now() < limit, "{same} rounds on one connection");
        let before = soon("the lock", patient.acquire()).await.unwrap();
        let first = owner(before.node_path());
        let control = Control::of(bed.server());
        bed.delete(before.node_path());
        let next = careful.clone();
        let after = tokio::spawn(async move { soon("the lock", next.acquire()).await.unwrap() });
        let (after, start) = (after.await.unwrap(), Instant::now());
        assert_eq!(after.node_path(), before.node_path());
        if first.is_some() && first == owner(after.node_path()) {
            same += 1;
            soon("the loss", before.lost()).await;
            control.within("held anew at its path", start.elapsed(), Duration::ZERO);
            assert!(!before.is_valid() && after.fencing_token() > before.fencing_token());
            assert!(before.release().await.unwrap_err().is_lost());
        } else {
            drop(before);
        }
        // Its node is not the other's.
        assert!(after.is_valid() && owner(after.node_path()).is_some());
        after.release().await.unwrap();
    }
    deaf.release();
    drop(busy);
    bed.end().await;
}

/// Two strangers that write a node without a pause, until this is dropped: also when the test fails, because
/// others use the server.
struct Writing {
    stop: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Writing {
    fn start(bed: &Bed, path: &str) -> Self {
        let (stop, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = [(); 2].map(|()| {
            let (mut raw, path) = (bed.raw(), path.to_owned());
            let (stop, writes) = (stop.clone(), writes.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    raw.set_data(&path, b"a stranger's").unwrap();
                    writes.fetch_add(1, Ordering::Relaxed);
                }
                raw.close().unwrap();
            })
        });
        Writing { stop, writes, threads: threads.into() }
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        assert!(thread::panicking() || joined.iter().all(Result::is_ok), "a writer failed");
    }
}

/// Whenever a heartbeat has read it, it is written again before the check.
#[tokio::test]
async fn a_node_that_is_written_all_the_time_hides_no_deletion_on_a_busy_day() {
    let bed = Bed::shared("written-all-the-time");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    // No watch tells.
    let deaf = proxy.on(Matcher::notification(), Action::Drop);
    let written = soon("the lock", session.mutex("written").unwrap().acquire()).await.unwrap();
    let writing = Writing::start(&bed, written.node_path());
    until("it is written", || (writing.writes() > 0).then_some(())).await;
    for kind in KINDS {
        let held = kind.acquire(&session).await;
        let control = Control::of(bed.server());
        bed.delete(held.node_path());
        let took = lost(kind, &held, Instant::now()).await;
        let what = format!("{kind:?} deleted beside one that is written");
        // A heartbeat asks for all, and reads those behind the one that is written.
        control.within_answers(&what, took, HEARTBEAT, 2);
    }
    assert!(written.is_valid());
    println!("{} writes", writing.writes());
    drop(writing);
    written.release().await.unwrap();
    deaf.release();
    drop(busy);
    bed.end().await;
}
