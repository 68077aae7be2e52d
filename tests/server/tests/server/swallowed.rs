//! Answers that are lost alone, while their connection lives on: each one that a lock of any kind needs, on
//! its way to the lock, while it waits, and in its release, for callers that await and for threads, on a
//! busy day.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zklock::layout::Kazoo;
use zklock::{LockOptions, Session};
use zklock_test_support::{Action, BOUND, Control, Late, Matcher, OpCode, Proxy, Rule};

use crate::bed::{Bed, soon, until};
use crate::kinds::{Held, KINDS, Kind, Wait};

const T: Duration = Duration::from_secs(20);

/// Of a call: below the session timeout, and long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(15);

/// The session timeout by default.
const DEFAULT_T: Duration = Duration::from_secs(10);

/// When what is not answered is asked for again: a quarter of the 4 s that a call takes by default, which is
/// less than a sixth of the session timeout.
const AGAIN: Duration = Duration::from_secs(1);

/// One try by default.
const TRY: Duration = Duration::from_secs(2);

/// What a lock may ask for. Hardly any kind needs all of it.
const ANSWERS: [OpCode; 5] =
    [OpCode::Create2, OpCode::GetChildren, OpCode::GetData, OpCode::Delete, OpCode::Multi];

/// The answers that a lock needs one after the other, at most: a permit waits for its inner lock, looks at the
/// others, and creates its node before it leaves the inner lock.
const IN_TURN: u32 = 6;

/// How many answers were swallowed, by what was done meanwhile.
type Swallowed = BTreeMap<(&'static str, OpCode), u64>;

/// A lock of one kind, wanted through a proxy.
struct Client {
    kind: Kind,
    session: Session,
    proxy: Arc<Proxy>,
    /// What the paths of its lock contain, and those of no other.
    path: String,
    swallowed: Swallowed,
    options: LockOptions,
    /// For how long it gets and releases its lock without an answer, at most; a free lock for which it
    /// waited, in the second.
    takes: [Duration; 2],
    control: Arc<Control>,
}

impl Client {
    fn new(bed: &Bed, kind: Kind, session: &Session, proxy: &Arc<Proxy>) -> Self {
        let path = bed.path(kind.name());
        let (session, proxy) = (session.clone(), proxy.clone());
        let (swallowed, control) = (Swallowed::new(), Arc::new(Control::timers()));
        let (options, takes) = (LockOptions::new().timeout(DEADLINE).retries(1), [DEADLINE; 2]);
        Client { kind, session, proxy, path, swallowed, options, takes, control }
    }

    /// A client that has no options, and gets and releases its lock in the time that is promised.
    fn by_default(mut self, control: &Arc<Control>) -> Self {
        (self.options, self.takes, self.control) =
            (LockOptions::default(), [AGAIN, DEFAULT_T / 6], control.clone());
        self
    }

    /// Only a call whose own deadline is over is late; whatever else is refused is wrong.
    async fn take(&self, wait: Wait, on_a_thread: bool) -> Result<Held, Late> {
        let (kind, session, start) = (self.kind, self.session.clone(), Instant::now());
        let options = self.options;
        let taken = if on_a_thread {
            spawn_blocking(move || kind.take_blocking(&session, options, wait)).await.unwrap()
        } else {
            kind.take(&session, options, wait).await
        };
        taken.map_err(|error| {
            let (took, tries) = (start.elapsed(), matches!(wait, Wait::Once | Wait::Tries));
            let what = format!("{kind:?}, {wait:?}, after {took:?}: {error:#}");
            assert!(tries && error.is_unavailable() && took >= TRY, "{what}");
            self.control.too_late(&what)
        })
    }

    /// Does something while the next answer to an operation is swallowed.
    async fn without<T>(
        &mut self,
        what: &'static str,
        opcode: OpCode,
        work: impl AsyncFnOnce(&Self, &Rule) -> T,
    ) -> (T, Duration) {
        let lost = Matcher::reply(opcode).path(&self.path).first(1);
        let rule = self.proxy.on(lost, Action::Drop);
        let start = Instant::now();
        let done = soon(what, work(self, &rule)).await;
        let took = start.elapsed();
        let hits = rule.hits();
        rule.release();
        *self.swallowed.entry((what, opcode)).or_default() += hits;
        assert!(hits == 1 || !self.needs(what, opcode), "{:?}: {what}, {opcode:?}", self.kind);
        (done, took)
    }

    /// Whether it surely asks for this.
    fn needs(&self, what: &str, opcode: OpCode) -> bool {
        match (what, opcode) {
            (_, OpCode::Delete) => what == "the release",
            (_, OpCode::Create2) => what != "the release",
            // The creation says who has the only node.
            (_, OpCode::GetChildren) => what != "the release" && self.kind != Kind::Exclusive,
            // A watch on the one ahead.
            ("the wait", OpCode::GetData) => {
                matches!(self.kind, Kind::Mutex | Kind::Fair | Kind::Write)
            }
            _ => false,
        }
    }

    /// Takes it and gives it back, without each of the answers.
    async fn goes_on(mut self) -> (Kind, Swallowed, Vec<Late>) {
        let mut late = Vec::new();
        for (on_a_thread, wait) in [(false, Wait::Once), (true, Wait::Tries)] {
            for opcode in ANSWERS {
                let taking = async |client: &Self, _: &Rule| client.take(wait, on_a_thread).await;
                let held = match self.without("the lock", opcode, taking).await {
                    (Ok(held), took) => {
                        let what = format!("{:?} without {opcode:?}", self.kind);
                        late.extend(self.control.late(&what, took, self.takes[0], IN_TURN));
                        held
                    }
                    (Err(gave_up), _) => {
                        late.push(gave_up);
                        continue;
                    }
                };
                assert!(held.is_valid(), "{:?}, {opcode:?}", self.kind);
                let releasing = async |_: &Self, _: &Rule| release(held, on_a_thread).await;
                let ((), took) = self.without("the release", opcode, releasing).await;
                let what = format!("{:?} without {opcode:?}, the release", self.kind);
                late.extend(self.control.late(&what, took, self.takes[1], 1));
            }
        }
        (self.kind, self.swallowed, late)
    }

    /// Waits for somebody else, without each of the answers.
    async fn waits(mut self, other: Session) -> (Kind, Swallowed, Vec<Late>) {
        let mut late = Vec::new();
        for on_a_thread in [false, true] {
            for opcode in ANSWERS {
                let rival = self.kind.rival().acquire(&other).await;
                let waiting = async |client: &Self, lost: &Rule| {
                    let meanwhile = async {
                        if client.needs("the wait", opcode) {
                            let is_lost = || (lost.hits() == 1).then_some(());
                            until("it has lost its answer", is_lost).await;
                        } else {
                            tokio::time::sleep(Duration::from_millis(300)).await;
                        }
                        let start = Instant::now();
                        rival.release().await.unwrap();
                        start
                    };
                    let taking = async {
                        let held = client.take(Wait::For(DEADLINE), on_a_thread).await;
                        (held.unwrap(), Instant::now())
                    };
                    let ((held, got), free) = tokio::join!(taking, meanwhile);
                    (held, got.saturating_duration_since(free))
                };
                let ((held, took), _) = self.without("the wait", opcode, waiting).await;
                let what = format!("{:?} without {opcode:?}, behind another", self.kind);
                // The lock is free: its release, and up to three answers on the way.
                late.extend(self.control.late(&what, took, self.takes[1], 4));
                assert!(held.is_valid(), "{:?}, {opcode:?}", self.kind);
                release(held, on_a_thread).await;
            }
        }
        (self.kind, self.swallowed, late)
    }
}

async fn release(held: Held, on_a_thread: bool) {
    if on_a_thread {
        spawn_blocking(move || held.blocking_release()).await.unwrap().unwrap();
    } else {
        held.release().await.unwrap();
    }
}

/// All kinds at once, and what each of them was kept from hearing. Returns what was late.
async fn all(
    clients: impl IntoIterator<
        Item = impl Future<Output = (Kind, Swallowed, Vec<Late>)> + Send + 'static,
    >,
) -> Vec<Late> {
    let mut all = Vec::new();
    for (kind, swallowed, late) in clients.into_iter().collect::<JoinSet<_>>().join_all().await {
        println!("{kind:?}: {swallowed:?}");
        all.extend(late);
    }
    all
}

#[tokio::test]
async fn locks_of_all_kinds_outlive_each_answer_that_is_swallowed_alone_on_a_busy_day() {
    let bed = Bed::shared("swallowed-kinds");
    let proxy = Arc::new(bed.proxy());
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy(&[&session]).await;
    let before = session.zookeeper_session();
    let clients = KINDS.map(|kind| Client::new(&bed, kind, &session, &proxy).goes_on());
    assert!(all(clients).await.is_empty());
    assert_eq!(before, session.zookeeper_session());
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_an_answer_that_is_swallowed_alone_is_made_up_for_in_time() {
    Bed::measured("swallowed-default", async |bed| {
        let proxy = Arc::new(bed.proxy());
        let session = bed.session_of_through(DEFAULT_T, &proxy).await;
        let busy = bed.busy(&[&session]).await;
        let before = session.zookeeper_session();
        let control = Arc::new(Control::of(bed.server()));
        let client = |kind| Client::new(&bed, kind, &session, &proxy).by_default(&control);
        let late = all(KINDS.map(|kind| client(kind).goes_on())).await;
        assert_eq!(before, session.zookeeper_session());
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// The traffic is in a session of its own behind the same proxy: all of one name have one layout.
#[tokio::test]
async fn locks_of_all_kinds_in_kazoos_layout_outlive_each_answer_that_is_swallowed_alone() {
    let bed = Bed::shared("swallowed-kazoo");
    let proxy = Arc::new(bed.proxy());
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).driver(Kazoo::default());
    let session = bed.adopt(builder.connect().await.unwrap());
    let beside = bed.session_through(&proxy).await;
    let busy = bed.busy(&[&beside]).await;
    let before = session.zookeeper_session();
    let clients = KINDS.map(|kind| Client::new(&bed, kind, &session, &proxy).goes_on());
    assert!(all(clients).await.is_empty());
    assert_eq!(before, session.zookeeper_session());
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn whoever_waits_outlives_each_answer_that_is_swallowed_alone_on_a_busy_day() {
    let bed = Bed::shared("swallowed-waits");
    let proxy = Arc::new(bed.proxy());
    let session = bed.session_of_through(T, &proxy).await;
    let other = bed.session().await;
    let busy = bed.busy(&[&session, &other]).await;
    let before = session.zookeeper_session();
    let clients = KINDS.map(|kind| Client::new(&bed, kind, &session, &proxy).waits(other.clone()));
    assert!(all(clients).await.is_empty());
    assert_eq!(before, session.zookeeper_session());
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_whoever_waits_makes_up_in_time_for_an_answer_that_is_swallowed_alone() {
    Bed::measured("swallowed-waits-default", async |bed| {
        let proxy = Arc::new(bed.proxy());
        let session = bed.session_of_through(DEFAULT_T, &proxy).await;
        let other = bed.session().await;
        let busy = bed.busy(&[&session, &other]).await;
        let before = session.zookeeper_session();
        let control = Arc::new(Control::of(bed.server()));
        let client = |kind| Client::new(&bed, kind, &session, &proxy).by_default(&control);
        let late = all(KINDS.map(|kind| client(kind).waits(other.clone()))).await;
        assert_eq!(before, session.zookeeper_session());
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// A lock that a deaf client waits for gets free: until its deadline, it is told of nothing. Whether a round
/// showed that: it waited before the lock was free, which was long before its deadline.
async fn gets_what_is_free(
    client: &Client,
    (other, control): (&Session, &Control),
    on_a_thread: bool,
) -> bool {
    const SHORT: Duration = Duration::from_secs(4);
    let rival = client.kind.rival().acquire(other).await;
    let deaf = client.proxy.on(Matcher::notification().path(&client.path), Action::Drop);
    let (kind, session, start) = (client.kind, client.session.clone(), Instant::now());
    let taking = async {
        let (options, wait) = (LockOptions::default(), Wait::For(SHORT));
        if on_a_thread {
            spawn_blocking(move || kind.take_blocking(&session, options, wait)).await.unwrap()
        } else {
            kind.take(&session, options, wait).await
        }
    };
    let meanwhile = async {
        tokio::time::sleep(SHORT / 4).await;
        rival.release().await.unwrap();
        start.elapsed()
    };
    let (taken, free_after) = tokio::join!(taking, meanwhile);
    let was_deaf = deaf.hits() > 0;
    deaf.release();
    match taken {
        Ok(held) => {
            assert!(held.is_valid(), "{kind:?}");
            release(held, on_a_thread).await;
            was_deaf
        }
        Err(error) => {
            // Or a server that needed longer for a few answers than there was time.
            let slow = error.is_unavailable() && control.longest_answer() > BOUND;
            assert!(
                free_after > SHORT / 2 || slow,
                "{kind:?}, free after {free_after:?}: {error:#}"
            );
            false
        }
    }
}

/// Plays rounds until one shows it, for tasks and for threads.
async fn gets_what_it_is_not_told_of(client: Client, other: Session, control: Arc<Control>) {
    for on_a_thread in [false, true] {
        let mut shown = false;
        for _ in 0..10 {
            shown = shown || gets_what_is_free(&client, (&other, &control), on_a_thread).await;
        }
        assert!(shown, "{:?}: nothing was kept from it in time", client.kind);
    }
}

#[tokio::test]
async fn whoever_is_not_told_that_a_lock_is_free_gets_it_before_the_deadline_on_a_busy_day() {
    let bed = Bed::shared("swallowed-news");
    let proxy = Arc::new(bed.proxy());
    let session = bed.session_of_through(T, &proxy).await;
    let other = bed.session().await;
    let busy = bed.busy(&[&session, &other]).await;
    let control = Arc::new(Control::of(bed.server()));
    let clients = KINDS.map(|kind| Client::new(&bed, kind, &session, &proxy));
    let waiting =
        clients.map(|client| gets_what_it_is_not_told_of(client, other.clone(), control.clone()));
    waiting.into_iter().collect::<JoinSet<_>>().join_all().await;
    drop(busy);
    bed.end().await;
}
