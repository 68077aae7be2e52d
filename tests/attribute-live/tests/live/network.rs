//! Guarded functions and templates when the network, the server or a stranger takes the lock from
//! under the body, on a busy day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use zklock::{Body, LockError, LockOptions, OnLost, Session, ZkLockTemplate, current, zk_locked};
use zklock_test_support::{BOUND, Control};

use crate::bed::{Bed, soon};

const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

const A: &str = "a";
const B: &str = "b";

/// A body that says that it is inside and when it was dropped, and ends when it is told to.
struct Work {
    session: Session,
    inside: Notify,
    end: Notify,
    /// Whether somebody is inside a body.
    running: Arc<AtomicBool>,
}

/// Is dropped with the body.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Work {
    fn new(session: &Session) -> Arc<Self> {
        let (inside, end, running) = (Notify::new(), Notify::new(), Arc::default());
        Arc::new(Work { session: session.clone(), inside, end, running })
    }

    async fn body(&self) {
        self.running.store(true, Ordering::SeqCst);
        let _running = Running(self.running.clone());
        self.inside.notify_one();
        self.end.notified().await;
    }

    /// Goes on when its lock is lost.
    async fn body_until_lost(&self) {
        self.body().await;
        current().lost().await;
        assert!(!current().is_valid());
    }

    fn plain(&self) {
        self.running.store(true, Ordering::SeqCst);
        let _running = Running(self.running.clone());
        self.inside.notify_one();
        assert!(current().is_valid());
        while current().is_valid() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[zk_locked("exclusive", session = self.session)]
    async fn exclusive(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("read", session = self.session, mode = read)]
    async fn read(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("write", session = self.session, mode = write)]
    async fn write(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("permit", session = self.session, mode = semaphore(1))]
    async fn permit(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("several", session = self.session, key = A, key = B)]
    async fn several(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("careful", session = self.session, stop_at = suspect)]
    async fn careful(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }

    #[zk_locked("finishing", session = self.session, on_lost = finish)]
    async fn finishing(&self) -> Result<(), LockError> {
        self.body_until_lost().await;
        Ok(())
    }

    #[zk_locked("thread", session = self.session)]
    fn thread(&self) -> Result<(), LockError> {
        self.plain();
        Ok(())
    }

    async fn template(&self) -> Result<(), LockError> {
        ZkLockTemplate::new(self.session.clone()).execute("template", || self.body()).await
    }

    async fn template_all(&self) -> Result<(), LockError> {
        let template = ZkLockTemplate::new(self.session.clone());
        template.execute_all(&["all/a", "all/b"], || self.body()).await
    }

    async fn template_finishing(&self) -> Result<(), LockError> {
        let template = ZkLockTemplate::new(self.session.clone());
        let template = template.with_options(LockOptions::new().on_lost(OnLost::Finish));
        template.execute("template/finishing", || self.body_until_lost()).await
    }

    fn template_thread(&self) -> Result<(), LockError> {
        let template = ZkLockTemplate::new(self.session.clone());
        template.blocking_execute("template/thread", || self.plain())
    }
}

/// How a body is called, the node of its lock, and what becomes of it.
type Case = (&'static str, Arc<Work>, JoinHandle<Result<(), LockError>>, Body);

/// Calls a body of each sort; comes back when all are inside.
async fn all(session: &Session) -> Vec<Case> {
    macro_rules! case {
        ($lock:literal, $call:ident, $body:expr) => {{
            let work = Work::new(session);
            let call = work.clone();
            ($lock, work, tokio::spawn(async move { call.$call().await }), $body)
        }};
        ($lock:literal, blocking $call:ident) => {{
            let work = Work::new(session);
            let call = work.clone();
            ($lock, work, spawn_blocking(move || call.$call()), Body::Finished)
        }};
    }
    let cases = vec![
        case!("exclusive", exclusive, Body::Dropped),
        case!("read", read, Body::Dropped),
        case!("write", write, Body::Dropped),
        case!("permit/leases", permit, Body::Dropped),
        case!("several/a", several, Body::Dropped),
        case!("careful", careful, Body::Dropped),
        case!("finishing", finishing, Body::Finished),
        case!("thread", blocking thread),
        case!("template", template, Body::Dropped),
        case!("all/b", template_all, Body::Dropped),
        case!("template/finishing", template_finishing, Body::Finished),
        case!("template/thread", blocking template_thread),
    ];
    for (lock, work, ..) in &cases {
        soon(&format!("{lock} is inside"), work.inside.notified()).await;
    }
    cases
}

/// Deletes the nodes in a directory, as somebody else does.
fn delete_nodes(bed: &Bed, directory: &str) {
    let (mut raw, directory) = (bed.raw(), bed.path(directory));
    let is_child = |path: &String| path.rsplit_once('/').is_some_and(|(of, _)| of == directory);
    let nodes = bed.server().sessions().into_iter().flat_map(|one| one.ephemerals);
    let nodes: Vec<_> = nodes.filter(is_child).collect();
    assert!(!nodes.is_empty(), "nothing is held in {directory}");
    nodes.iter().for_each(|node| raw.delete(node).unwrap());
    raw.close().unwrap();
}

/// The body has come to its end, and its caller is told what became of it.
async fn told(lock: &str, work: &Work, call: JoinHandle<Result<(), LockError>>, body: Body) {
    if body == Body::Finished {
        work.end.notify_one();
    }
    let error = soon(lock, call).await.unwrap().unwrap_err();
    assert!(error.is_lost(), "{lock}: {error}");
    assert_eq!(error.body(), Some(body), "{lock}: {error}");
    assert!(!work.running.load(Ordering::SeqCst), "{lock}: its body goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_stop_behind_a_dead_network_before_another_is_granted() {
    let bed = Bed::shared("bodies-silence");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T);
    let session = bed.adopt(builder.connect().await.unwrap());
    let other = bed.session().await;
    let busy = bed.busy_while_broken(&[&session, &other]).await;
    let cases = all(&session).await;
    let mut next = Vec::new();
    for (lock, work, _, body) in &cases {
        if *body == Body::Finished {
            continue;
        }
        // The write lock keeps readers and writers out; others are mutexes or the only permit.
        let (other, running, lock) = (other.clone(), work.running.clone(), *lock);
        next.push(tokio::spawn(async move {
            let next = async {
                match lock {
                    "read" | "write" => {
                        drop(other.rw_lock(lock)?.write().await?);
                    }
                    "permit/leases" => drop(other.semaphore("permit", 1)?.acquire().await?),
                    _ => drop(other.mutex(lock)?.acquire().await?),
                }
                Ok::<_, LockError>(running.load(Ordering::SeqCst))
            };
            (lock, next.await.unwrap())
        }));
    }
    proxy.black_hole(true);
    for next in next {
        let (lock, running) = soon("the next", next).await.unwrap();
        assert!(!running, "{lock}: another was granted while the body went on");
    }
    proxy.heal();
    for (lock, work, call, body) in cases {
        told(lock, &work, call, body).await;
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_stops_at_suspect_is_dropped_at_a_cut_and_the_others_go_on() {
    let bed = Bed::shared("bodies-cut");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(2 * T);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&session]).await;
    let cases = all(&session).await;
    let control = Control::timers();
    proxy.refuse(true);
    proxy.cut_reset();
    let start = Instant::now();
    let careful = cases.iter().find(|(lock, ..)| *lock == "careful").unwrap();
    while careful.1.running.load(Ordering::SeqCst) {
        control.within("the careful body is dropped", start.elapsed(), Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (lock, work, ..) in &cases {
        assert_eq!(work.running.load(Ordering::SeqCst), *lock != "careful", "{lock}");
    }
    proxy.refuse(false);
    for (lock, work, call, body) in cases {
        match (lock, body) {
            ("careful", body) => told(lock, &work, call, body).await,
            // They never lost it, and are dropped with their callers.
            (_, Body::Dropped) => {
                call.abort();
                assert!(soon(lock, call).await.unwrap_err().is_cancelled());
            }
            _ => {
                delete_nodes(&bed, lock);
                told(lock, &work, call, body).await;
            }
        }
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_whose_node_is_deleted_stop_within_a_heartbeat() {
    let bed = Bed::shared("bodies-deleted");
    let session = bed.session_of(T).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let cases = all(&session).await;
    let control = Control::of(bed.server());
    for (lock, ..) in &cases {
        delete_nodes(&bed, lock);
    }
    let start = Instant::now();
    for (lock, work, call, body) in cases {
        if body == Body::Dropped {
            while work.running.load(Ordering::SeqCst) {
                control.within(&format!("{lock} is dropped"), start.elapsed(), HEARTBEAT);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        told(lock, &work, call, body).await;
    }
    drop(busy);
    bed.end().await;
}

const TIMEOUT: Duration = Duration::from_millis(300);
const RETRIES: u32 = 2;

/// How late a call of several locks may be, for each of them.
const EACH: Duration = Duration::from_millis(60);

/// Calls that wait for so long at most, each for locks of its own.
struct Calls {
    session: Session,
    template: ZkLockTemplate,
    has_begun: AtomicBool,
}

impl Calls {
    fn new(session: &Session) -> Arc<Self> {
        let options = LockOptions::default().timeout(TIMEOUT).retries(RETRIES);
        let template = ZkLockTemplate::new(session.clone()).with_options(options);
        Arc::new(Calls { session: session.clone(), template, has_begun: AtomicBool::new(false) })
    }

    fn begins(&self) {
        self.has_begun.store(true, Ordering::SeqCst);
    }

    #[zk_locked("calls/task", session = self.session, timeout = "300ms", retries = 2)]
    async fn task(&self) -> Result<(), LockError> {
        self.begins();
        Ok(())
    }

    #[zk_locked("calls/thread", session = self.session, timeout = "300ms", retries = 2)]
    fn thread(&self) -> Result<(), LockError> {
        self.begins();
        Ok(())
    }

    #[zk_locked("calls", session = self.session, key = A, key = B, timeout = "300ms", retries = 2)]
    async fn several(&self) -> Result<(), LockError> {
        self.begins();
        Ok(())
    }

    async fn template(&self) -> Result<(), LockError> {
        self.template.execute("calls/template", || async { self.begins() }).await
    }

    async fn template_all(&self) -> Result<(), LockError> {
        self.template.execute_all(&["calls/all/a", "calls/all/b"], || async { self.begins() }).await
    }

    fn template_thread(&self) -> Result<(), LockError> {
        self.template.blocking_execute("calls/template/thread", || self.begins())
    }

    fn template_all_threads(&self) -> Result<(), LockError> {
        let names = ["calls/all/thread/a", "calls/all/thread/b"];
        self.template.blocking_execute_all(names, || self.begins())
    }
}

/// All of them are back in time, and no body has begun.
async fn in_vain(what: &str, session: &Session) {
    let calls = Calls::new(session);
    let control = Control::timers();
    let mut all = JoinSet::new();
    macro_rules! call {
        ($call:ident, $locks:literal) => {{
            let calls = calls.clone();
            all.spawn(async move {
                let start = Instant::now();
                let outcome = calls.$call().await;
                (stringify!($call), $locks, outcome, start.elapsed())
            });
        }};
        (blocking $call:ident, $locks:literal) => {{
            let calls = calls.clone();
            all.spawn_blocking(move || {
                let start = Instant::now();
                let outcome = calls.$call();
                (stringify!($call), $locks, outcome, start.elapsed())
            });
        }};
    }
    call!(task, 1);
    call!(blocking thread, 1);
    call!(several, 2);
    call!(template, 1);
    call!(template_all, 2);
    call!(blocking template_thread, 1);
    call!(blocking template_all_threads, 2);
    while let Some(done) = all.join_next().await {
        let (call, locks, outcome, took) = done.unwrap();
        let (call, error) = (format!("{what}, {call}"), outcome.unwrap_err());
        assert!(error.is_unavailable(), "{call}: {error}");
        assert_eq!(error.body(), Some(Body::NotStarted), "{call}: {error}");
        // Beyond what one call may be late by in any case.
        let for_several = (EACH * locks).saturating_sub(BOUND);
        control.within(&call, took, TIMEOUT * RETRIES + for_several);
    }
    assert!(!calls.has_begun.load(Ordering::SeqCst), "{what}: a body has begun");
}

/// A body begins when the server is there again.
async fn begins_again(session: &Session) {
    // Nobody promises how soon a server that was stopped answers.
    let patient = LockOptions::default().timeout(Duration::from_secs(60));
    let template = ZkLockTemplate::new(session.clone()).with_options(patient);
    let begun = template.execute("calls/again", || async { true });
    assert!(soon("the call", begun).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_begins_while_the_server_is_frozen_and_its_call_is_back_in_time() {
    let bed = Bed::own();
    let session = bed.session().await;
    let busy = bed.busy_while_broken(&[&session]).await;
    bed.server().pause();
    in_vain("frozen", &session).await;
    // The bound includes connecting.
    let unconnected = bed.adopt(bed.builder().open().unwrap());
    in_vain("frozen, not connected", &unconnected).await;
    bed.server().resume();
    begins_again(&session).await;
    begins_again(&unconnected).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_begins_while_the_server_is_gone_and_its_call_is_back_in_time() {
    let bed = Bed::own();
    let session = bed.session().await;
    let busy = bed.busy_while_broken(&[&session]).await;
    bed.server().kill();
    in_vain("gone", &session).await;
    let unconnected = bed.adopt(bed.builder().open().unwrap());
    in_vain("gone, not connected", &unconnected).await;
    bed.server().restart();
    begins_again(&session).await;
    begins_again(&unconnected).await;
    drop(busy);
    bed.end().await;
}
