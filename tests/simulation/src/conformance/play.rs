//! Running a script.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::{Created, NodeKind, Stat};
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::coordinator::watch::Watch;

use super::bed::{Bed, SLOTS};
use super::report::Report;
use super::script::{Ask, Class, Script, Step};

/// Runs a script on a bed, and reports what its sessions saw.
pub async fn play(script: &Script, bed: &dyn Bed) -> Report {
    let root = bed.root(script.class == Class::Full).await;
    let mut player = Player { bed, script, report: Report::new(&root), root, slots: Vec::new() };
    for slot in 0..SLOTS {
        let session = bed.open(slot, script.access[slot], script.is_short(slot)).await;
        player.report.name_session(session.session_id(), slot);
        player.slots.push(Slot::new(session));
    }
    player.settle().await;
    for (number, step) in script.steps.iter().enumerate() {
        player.report.line(format!("step {number}"));
        player.step(number, step).await;
        if script.class == Class::Reaping {
            bed.reap().await;
        }
        player.settle().await;
    }
    player.report
}

pub(super) struct Slot {
    pub(super) session: Arc<dyn Coordinator>,
    down: bool,
    /// What was asked and not answered.
    waiting: Vec<(String, Answer)>,
    watches: Vec<Option<Watch>>,
    /// Whether something was asked whose answer was dropped.
    pub(super) forgot: bool,
}

impl Slot {
    fn new(session: Arc<dyn Coordinator>) -> Self {
        let (waiting, watches) = (Vec::new(), Vec::new());
        Slot { session, down: false, waiting, watches, forgot: false }
    }
}

pub(super) struct Player<'a> {
    pub(super) bed: &'a dyn Bed,
    script: &'a Script,
    pub(super) report: Report,
    root: String,
    pub(super) slots: Vec<Slot>,
}

enum Got {
    Created(Created),
    Done,
    Children(Vec<String>, Option<Watch>),
    Data(Vec<u8>, Stat, Option<Watch>),
    Stat(Stat),
}

type Answer = Pin<Box<dyn Future<Output = Result<Got, RequestError>> + Send>>;

impl Player<'_> {
    fn path(&self, path: &str) -> String {
        if path.is_empty() { self.root.clone() } else { format!("{}/{path}", self.root) }
    }

    async fn step(&mut self, number: usize, step: &Step) {
        match step {
            Step::Ask(slot, asks) => {
                self.ask(*slot, asks);
                if !self.slots[*slot].down {
                    self.answers(*slot).await;
                }
            }
            Step::Cut(slot) => self.cut(*slot).await,
            Step::Heal(slot, server) => self.heal(*slot, *server).await,
            Step::Lose { slot, asks, applied } => self.lose(number, *slot, asks, *applied).await,
            Step::Pause { slot, asks, deed, way } => {
                self.pause(number, *slot, asks, deed, *way).await;
            }
            Step::Silence { slot, deed } => self.silence(*slot, deed).await,
            Step::Unwatch(slot, watch) => {
                if let Some(watch) = self.slots[*slot].watches.get_mut(*watch) {
                    watch.take();
                }
            }
            Step::Close(slot) => {
                self.up(*slot).await;
                self.slots[*slot].session.close().await;
                self.replace(*slot).await;
            }
            Step::Expire(slot) => {
                self.up(*slot).await;
                let session = self.slots[*slot].session.clone();
                self.bed.expire(*slot, session.session_id()).await;
                until(&session, Link::is_over).await;
                self.replace(*slot).await;
            }
            Step::Outlive(slot) => {
                if !self.slots[*slot].down {
                    self.cut(*slot).await;
                }
                self.bed.outlive().await;
                self.bed.heal(*slot, *slot).await;
                let session = self.slots[*slot].session.clone();
                until(&session, Link::is_over).await;
                self.slots[*slot].down = false;
                self.answers(*slot).await;
                self.replace(*slot).await;
            }
        }
    }

    pub(super) async fn up(&mut self, slot: usize) {
        if self.slots[slot].down {
            self.heal(slot, slot).await;
        }
    }

    async fn cut(&mut self, slot: usize) {
        self.bed.cut(slot).await;
        let session = self.slots[slot].session.clone();
        until(&session, |link| link != Link::Up).await;
        self.slots[slot].down = true;
    }

    async fn heal(&mut self, slot: usize, server: usize) {
        self.bed.heal(slot, server).await;
        let session = self.slots[slot].session.clone();
        until(&session, |link| link != Link::Down).await;
        self.report.line(format!("{slot}: {:?}", session.link()));
        self.slots[slot].down = false;
        self.answers(slot).await;
    }

    /// Asks what does not arrive, or whose answers do not.
    async fn lose(&mut self, number: usize, slot: usize, asks: &[Ask], applied: bool) {
        let other = (slot + 1) % SLOTS;
        if applied {
            self.up(other).await;
            // What the other one has just asked may fire a watch here.
            self.catch_up(slot).await;
        }
        self.bed.silence(slot, !applied).await;
        self.ask(slot, asks);
        if applied {
            self.applied(number, slot, other).await;
        } else {
            let requests = asks.len();
            self.bed.lost(slot, requests).await;
        }
        self.cut(slot).await;
        let failed = std::mem::take(&mut self.slots[slot].waiting);
        for (head, answer) in failed {
            let answer = answer.await;
            self.tell(slot, &head, answer);
        }
    }

    /// Waits until another session sees what a session asked, whose answers it does not hear.
    pub(super) async fn applied(&mut self, number: usize, slot: usize, other: usize) {
        // What is in front of this has been applied when it is seen.
        let path = self.path(&format!("mark-{number}"));
        drop(self.slots[slot].session.create(&path, b"", NodeKind::Persistent));
        let session = self.slots[other].session.clone();
        while let Err(RequestError::NoNode) = session.get(&path).await.map(drop) {}
    }

    /// A session is over; another one takes its place.
    async fn replace(&mut self, slot: usize) {
        let link = self.slots[slot].session.link();
        self.report.line(format!("{slot}: {link:?}"));
        self.events(slot);
        let (access, short) = (self.script.access[slot], self.script.is_short(slot));
        let session = self.bed.open(slot, access, short).await;
        self.report.name_session(session.session_id(), slot);
        self.slots[slot] = Slot::new(session);
    }

    /// Lets all sessions catch up, and looks at their watches.
    async fn settle(&mut self) {
        for slot in 0..SLOTS {
            self.catch_up(slot).await;
            self.events(slot);
        }
    }

    /// Waits until a session, if it is connected, sees all that happened.
    pub(super) async fn catch_up(&mut self, slot: usize) {
        if !self.slots[slot].down {
            let synced = self.slots[slot].session.sync(&self.root);
            if let Err(error) = synced.await {
                self.report.failed(&format!("{slot}: sync"), &error);
            }
        }
    }

    /// Notes which watches have fired.
    fn events(&mut self, slot: usize) {
        let mut cx = Context::from_waker(Waker::noop());
        for (number, watch) in self.slots[slot].watches.iter_mut().enumerate() {
            let polled = watch.as_mut().map(|watch| watch.as_mut().poll(&mut cx));
            if let Some(Poll::Ready(event)) = polled {
                watch.take();
                self.report.event(slot, number, event);
            }
        }
    }

    pub(super) async fn answers(&mut self, slot: usize) {
        let waiting = std::mem::take(&mut self.slots[slot].waiting);
        let forgot = std::mem::take(&mut self.slots[slot].forgot);
        let one = waiting.len() == 1 && !forgot;
        for (head, answer) in waiting {
            let answer = answer.await;
            // An event of its own comes before the answer. With several in flight, more may have come.
            if one {
                self.events(slot);
            }
            self.tell(slot, &head, answer);
        }
        // What nobody waits for is done before others look.
        if forgot {
            _ = self.slots[slot].session.sync(&self.root).await;
        }
    }

    fn tell(&mut self, slot: usize, head: &str, answer: Result<Got, RequestError>) {
        let watch = match answer {
            Ok(Got::Created(created)) => {
                self.report.created(head, &created);
                None
            }
            Ok(Got::Done) => {
                self.report.line(format!("{head} -> done"));
                None
            }
            Ok(Got::Children(mut names, watch)) => {
                names.sort();
                self.report.line(format!("{head} -> {names:?}"));
                watch
            }
            Ok(Got::Data(data, stat, watch)) => {
                self.report.stat(head, &format!("{} bytes", data.len()), &stat);
                watch
            }
            Ok(Got::Stat(stat)) => {
                self.report.stat(head, "set", &stat);
                None
            }
            Err(error) => {
                self.report.failed(head, &error);
                None
            }
        };
        if let Some(watch) = watch {
            self.slots[slot].watches.push(Some(watch));
        }
    }

    pub(super) fn ask(&mut self, slot: usize, asks: &[Ask]) {
        let down = self.slots[slot].down && self.slots[slot].waiting.is_empty();
        // Whoever was away may be behind.
        for ask in down.then_some(&Ask::Sync).into_iter().chain(asks) {
            let head = format!("{slot}: {ask:?}");
            self.slots[slot].forgot |= matches!(ask, Ask::Forget(_));
            if let Some(answer) = self.send(slot, ask) {
                self.slots[slot].waiting.push((head, answer));
            }
        }
    }

    fn send(&self, slot: usize, ask: &Ask) -> Option<Answer> {
        let session = &self.slots[slot].session;
        Some(match ask {
            Ask::Create(path, kind) => {
                let asked = session.create(&self.path(path), b"new", *kind);
                Box::pin(async move { asked.await.map(Got::Created) })
            }
            Ask::Delete(path) => {
                let asked = session.delete(&self.path(path));
                Box::pin(async move { asked.await.map(|()| Got::Done) })
            }
            Ask::Children(path, false) => {
                let asked = session.children(&self.path(path));
                Box::pin(async move { asked.await.map(|names| Got::Children(names, None)) })
            }
            Ask::Children(path, true) => {
                let asked = session.children_watched(&self.path(path));
                let convert = |(names, watch)| Got::Children(names, Some(watch));
                Box::pin(async move { asked.await.map(convert) })
            }
            Ask::Get(path, false) => {
                let asked = session.get(&self.path(path));
                Box::pin(async move { asked.await.map(|(data, stat)| Got::Data(data, stat, None)) })
            }
            Ask::Get(path, true) => {
                let asked = session.get_watched(&self.path(path));
                let convert = |(data, stat, watch)| Got::Data(data, stat, Some(watch));
                Box::pin(async move { asked.await.map(convert) })
            }
            Ask::Set(path, data) => {
                let asked = session.set(&self.path(path), data);
                Box::pin(async move { asked.await.map(Got::Stat) })
            }
            Ask::Multi(operations) => {
                let operations = operations.iter().map(|one| self.below(one)).collect();
                let asked = session.multi(operations);
                Box::pin(async move { asked.await.map(|()| Got::Done) })
            }
            Ask::Sync => {
                let asked = session.sync(&self.root);
                Box::pin(async move { asked.await.map(|()| Got::Done) })
            }
            Ask::Forget(ask) => {
                drop(self.send(slot, ask));
                return None;
            }
        })
    }

    fn below(&self, operation: &Operation) -> Operation {
        let mut operation = operation.clone();
        let (Operation::Check { path }
        | Operation::CheckVersion { path, .. }
        | Operation::Create { path, .. }
        | Operation::Set { path, .. }
        | Operation::Replace { path, .. }
        | Operation::Delete { path }) = &mut operation;
        *path = self.path(path);
        operation
    }
}

/// Waits until the link of a session is as it should be.
pub(super) async fn until(session: &Arc<dyn Coordinator>, holds: impl Fn(Link) -> bool) {
    let mut link = session.link();
    while !holds(link) {
        link = session.link_changed(link).await;
    }
}
