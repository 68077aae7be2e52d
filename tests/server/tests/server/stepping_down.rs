//! A writer that becomes a reader on a busy day, while readers of its process, of another session and of another
//! process wait, and a writer behind them: what is of the writer ends before anybody reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use zklock::{
    FencingToken, GuardView, LockOptions, RwLock, RwLockReadGuard, RwLockWriteGuard, Session,
};
use zklock_test_support::{Action, Matcher, OpCode, RawClient, monotonic_ns};

use crate::bed::{Bed, soon, until};
use crate::process::Process;

/// Long enough for whoever is let in too soon.
const SOON: Duration = Duration::from_millis(200);

/// What all read, and the writers write.
const STATE: &str = "state";

fn lock(session: &Session, fair: bool) -> RwLock {
    session.rw_lock("a").unwrap().with_options(LockOptions::new().fair(fair))
}

/// What a reader found as it came in, and when.
struct Entered {
    at: u64,
    /// Whether the view of the writer said that it writes.
    writes: bool,
    /// As it came in, and before it left.
    states: [String; 2],
}

/// How many of this process are inside, by what they do.
#[derive(Debug, Default)]
struct Inside {
    reading: AtomicUsize,
    writing: AtomicUsize,
}

fn state(raw: &mut RawClient, path: &str) -> String {
    String::from_utf8(raw.data(path).unwrap()).unwrap()
}

/// Who waits for a lock that a writer holds.
struct Waiting<'a> {
    process: &'a mut Process,
    inside: Arc<Inside>,
    readers: Vec<JoinHandle<Entered>>,
    /// When it came in, and with which token.
    writer: JoinHandle<(u64, FencingToken)>,
}

impl<'a> Waiting<'a> {
    /// A task and a thread of the writer's session, a task of another one, and a process; then a writer of a third
    /// session.
    async fn new(
        bed: &Bed,
        process: &'a mut Process,
        [session, other, third]: [&Session; 3],
        (view, fair): (&Arc<GuardView>, bool),
    ) -> Self {
        let inside = Arc::new(Inside::default());
        let reader = |session: &Session, blocking: bool| {
            let (lock, view, path) = (lock(session, fair), view.clone(), bed.path(STATE));
            let (mut raw, inside) = (bed.raw(), inside.clone());
            let reads = move |guard: RwLockReadGuard| {
                let (at, writes) = (monotonic_ns(), view.is_valid());
                inside.reading.fetch_add(1, Ordering::SeqCst);
                assert_eq!(inside.writing.load(Ordering::SeqCst), 0, "a writer is inside");
                let first = state(&mut raw, &path);
                thread::sleep(SOON);
                let states = [first, state(&mut raw, &path)];
                raw.close().unwrap();
                assert!(guard.is_valid());
                inside.reading.fetch_sub(1, Ordering::SeqCst);
                guard.blocking_release().unwrap();
                Entered { at, writes, states }
            };
            if blocking {
                return spawn_blocking(move || reads(lock.blocking_read().unwrap()));
            }
            tokio::spawn(async move {
                let guard = soon("a reader", lock.read()).await.unwrap();
                spawn_blocking(move || reads(guard)).await.unwrap()
            })
        };
        let readers = vec![reader(session, false), reader(session, true), reader(other, false)];
        process.ask();
        // Those of this process have nodes of their own only then.
        let nodes = if fair { 4 } else { 2 };
        until("two wait here, and two elsewhere", || {
            let here = session.local_contenders();
            let here = here.iter().filter(|one| !one.holds && &*one.lock == "a").count();
            (here == 2 && bed.contenders_by("a", "__READ__").len() >= nodes).then_some(())
        })
        .await;
        let (last, others) = (lock(third, fair), inside.clone());
        let writer = tokio::spawn(async move {
            let guard = soon("a writer", last.write()).await.unwrap();
            let (at, token) = (monotonic_ns(), guard.fencing_token());
            others.writing.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others.reading.load(Ordering::SeqCst), 0, "a reader is inside");
            others.writing.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
            (at, token)
        });
        let writers = || bed.contenders_by("a", "__WRIT__").len();
        until("a writer waits", || (writers() == 2).then_some(())).await;
        Waiting { process, inside, readers, writer }
    }

    /// All come in, none before the view of the writer is invalid, which it was not yet at `valid_at`, and what any of
    /// them reads stays. The writer waits for those ahead of it.
    async fn come_in(self, reading: RwLockReadGuard, valid_at: u64, what: &str) {
        let Waiting { process, inside, readers, writer } = self;
        let came_in: u64 = process.hears("read ").parse().unwrap();
        assert!(valid_at < came_in, "a writer is beside a reader of another process: {what}");
        let mut states = vec![process.hears("state ")];
        tokio::time::sleep(SOON).await;
        let last_read = monotonic_ns();
        process.ask();
        states.push(process.hears("state "));
        assert!(reading.is_valid(), "{what}");
        let (token, last_read_here) = (reading.fencing_token(), monotonic_ns());
        reading.release().await.unwrap();
        for reader in readers {
            let Entered { at, writes, states: both } = soon("a reader", reader).await.unwrap();
            assert!(!writes && valid_at < at, "a writer is beside a reader: {what}");
            states.extend(both);
        }
        assert!(states.iter().all(|state| *state == states[0]), "{what}: {states:?}");
        let (wrote, next) = soon("the writer", writer).await.unwrap();
        assert!(wrote > last_read.max(last_read_here) && next > token, "{what}: {inside:?}");
    }
}

/// Takes the lock to write, and writes.
async fn writes(session: &Session, bed: &Bed, fair: bool) -> (RwLockWriteGuard, Arc<GuardView>) {
    let writing = soon("to write", lock(session, fair).write()).await.unwrap();
    let (path, view) = (bed.path(STATE), Arc::new(writing.view()));
    if writing.fenced().set(&path, b"first").await.is_err() {
        writing.fenced().create(&path, b"first").await.unwrap();
    }
    (writing, view)
}

/// In every other round nothing is written meanwhile, so that those who wait beside it come in by its node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_steps_down_has_ended_for_its_views_and_writes_before_anybody_reads() {
    const ROUNDS: usize = 8;
    let bed = Bed::shared("stepping-down");
    let sessions = bed.sessions(3).await;
    let [session, other, third] = [0, 1, 2].map(|number| &sessions[number]);
    let busy = bed.busy(&[session, other]).await;
    let mut process = Process::reading(&bed, STATE);
    for round in 0..ROUNDS {
        let (fair, is_writing) = (round % 4 >= 2, round % 2 == 1);
        let (writing, view) = writes(session, &bed, fair).await;
        let of_all = [session, other, third];
        let waiting = Waiting::new(&bed, &mut process, of_all, (&view, fair)).await;
        let mut writers = Vec::new();
        for number in 0..4 * usize::from(is_writing) {
            let (view, path) = (view.clone(), bed.path(STATE));
            writers.push(tokio::spawn(async move {
                for count in 1.. {
                    let state = format!("{number}: {count}");
                    if let Err(error) = view.fenced().set(&path, state.as_bytes()).await {
                        assert!(error.is_lost(), "{error:#}");
                        return count;
                    }
                }
                unreachable!()
            }));
        }
        let looks = thread::spawn({
            let view = view.clone();
            move || {
                let mut last = 0;
                loop {
                    let now = monotonic_ns();
                    if !view.is_valid() {
                        return last;
                    }
                    last = now;
                    thread::yield_now();
                }
            }
        });
        if is_writing {
            tokio::time::sleep(SOON / 10).await;
        }
        let token = writing.fencing_token();
        let reading = soon("to step down", writing.downgrade()).await.unwrap();
        assert!(reading.is_valid() && reading.fencing_token() > token);
        let mut written = 0;
        for writer in writers {
            written += soon("a write", writer).await.unwrap();
        }
        let valid_at = looks.join().unwrap();
        let what = format!("round {round}, fair: {fair}, {written} writes");
        waiting.come_in(reading, valid_at, &what).await;
    }
    drop(busy);
    bed.end().await;
}

/// The write is sent before the step begins, or when the reader's node is there and the writer's is not deleted yet;
/// the network delivers it late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_under_way_as_a_writer_steps_down_is_applied_before_anybody_reads_or_not_at_all() {
    let bed = Bed::shared("stepping-down-writing");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).max_connections(1);
    let session = &bed.adopt(builder.connect().await.unwrap());
    let (other, third) = (&bed.session().await, &bed.session().await);
    let busy = bed.busy_in_one_lane_while_broken(&[session]).await;
    let mut process = Process::reading(&bed, STATE);
    for (fair, before) in [(false, false), (false, true), (true, false), (true, true)] {
        let (writing, view) = writes(session, &bed, fair).await;
        let of_all = [session, other, third];
        let waiting = Waiting::new(&bed, &mut process, of_all, (&view, fair)).await;
        let made = Matcher::reply(OpCode::Create2).path("__READ__").first(1);
        let late = Matcher::request(OpCode::Multi).path(&bed.path(STATE)).first(1);
        let write = || {
            let (view, path) = (view.clone(), bed.path(STATE));
            tokio::spawn(async move { view.fenced().set(&path, b"second").await })
        };
        let (step_down, write) = if before {
            let late = proxy.on(late, Action::Hold);
            let write = write();
            until("it is written", || (late.hits() == 1).then_some(())).await;
            let step_down = tokio::spawn(writing.downgrade());
            tokio::time::sleep(SOON).await;
            late.release();
            (step_down, write)
        } else {
            let made = proxy.on(made, Action::Hold);
            let step_down = tokio::spawn(writing.downgrade());
            until("the reader's node is there", || (made.hits() == 1).then_some(())).await;
            let late = proxy.on(late, Action::Hold);
            let write = write();
            until("it is written", || (late.hits() == 1).then_some(())).await;
            made.release();
            tokio::time::sleep(SOON).await;
            late.release();
            (step_down, write)
        };
        let reading = soon("to step down", step_down).await.unwrap().unwrap();
        let written = soon("the write", write).await.unwrap();
        let error = view.fenced().set(&bed.path(STATE), b"late").await.unwrap_err();
        assert!(error.is_lost(), "{error:#}");
        let what = format!("fair: {fair}, before: {before}, written: {written:?}");
        println!("{what}");
        waiting.come_in(reading, 0, &what).await;
    }
    drop(busy);
    bed.end().await;
}
