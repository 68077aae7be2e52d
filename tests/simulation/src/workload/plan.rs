//! The locks of a schedule: kinds, layouts and options.

use std::time::Duration;

use zklock_core::base::error::LockError;
use zklock_core::base::options::LockOptions;
use zklock_core::base::policy::{Handoffs, StopAt};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::layout::{HostNodes, Kazoo, Numbered, OneNode, ReadWriteNodes};
use zklock_core::lock::{AnyLock, Mutex};
use zklock_core::session::Session;

use crate::ensemble::Access;
use crate::executor::{World, current_task};
use crate::profile::{Profile, Shape};

/// What a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One holder.
    Mutex,
    /// Readers, or one writer.
    ReadWrite,
    /// So many permits.
    Permits(u32),
}

/// How the nodes of a lock look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As Curator's.
    Curator,
    /// As kazoo's.
    Kazoo,
    /// A word and a number.
    Numbered,
    /// `READ-` and `WRITE-`, and a number.
    ReadWrite,
    /// The host, the mode and a number.
    Hosts,
    /// One node, which is there or not.
    OneNode,
}

impl Layout {
    /// Whether it is one of those that are written by hand.
    pub fn is_plain(self) -> bool {
        !matches!(self, Layout::Curator | Layout::Kazoo)
    }
}

/// Nodes that tell which process made them.
fn host() -> HostNodes {
    let process = current_task().map_or(0, |(process, _)| process.0);
    HostNodes::of(format!("host{process}"))
}

/// A lock that all processes know.
#[derive(Clone, Debug)]
pub struct LockPlan {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub family: Family,
    /// Its options.
    pub options: LockOptions,
    /// Whether it lingers: then nobody asks once, as a rule.
    pub lingers: bool,
    /// Whether only some of those who use it let it linger, and others ask once.
    pub tried: bool,
    /// How it is laid out.
    pub layout: Layout,
    /// Whether a mutex of the same name is used beside the read/write lock, which excludes it.
    pub mixed: bool,
    /// Whether the limit of a semaphore is in a node, and changes.
    pub limited_at: bool,
    /// Of so many who use a read/write lock, one writes.
    pub writers: u32,
    /// Whether it is taken for a lock of one kind by some, and of another by others.
    pub confused: bool,
    /// Whether an administrator made its directories, and not all may do everything there.
    pub administered: bool,
    /// Whether some of those who use it wait in nodes of their own.
    pub alone: bool,
    /// Whether those who use it have one of two identifiers, where its layout has some.
    pub identified: bool,
}

const NAMES: [&str; 16] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

/// What the names of nodes begin with that are beside those of a lock and mean nothing.
pub(crate) const BESIDE: &str = "by-the-way";

/// The credentials of an administrator, and of the processes that may do what others may not.
pub(crate) const RIGHTS: u32 = 1;

/// The highest limit of a semaphore that changes.
pub(crate) const MOST_PERMITS: u32 = 4;

/// What some of those say in their nodes who use a semaphore in kazoo's layout.
const IDENTIFIER: &str = "the other one";

/// More shares than there are readers.
pub(super) const ROOM: u32 = 1_000;

impl LockPlan {
    /// Draws the locks of a schedule.
    pub fn draw(world: &World, profile: &Profile) -> Vec<LockPlan> {
        let mut locks = Vec::new();
        for name in NAMES.into_iter().take(profile.locks as usize) {
            let usual = LockOptions::default();
            let mut plan = LockPlan {
                name,
                family: Family::Mutex,
                options: usual,
                lingers: false,
                tried: profile.tries,
                layout: Layout::Curator,
                mixed: false,
                limited_at: false,
                writers: if profile.reads { [12, 240][world.choose(2) as usize] } else { 3 },
                confused: false,
                administered: false,
                alone: profile.alone,
                identified: profile.identified,
            };
            if profile.kinds {
                plan.draw_kind(world, profile);
            }
            match profile.only {
                Some(family) => plan.family = family,
                None if profile.marks => plan.draw_marks(world),
                None if profile.limits => plan.draw_limits(world),
                None if profile.turns => plan.draw_turns(world),
                // A semaphore cannot.
                None if profile.lingers && !plan.has_permits() => plan.draw_lingering(world),
                None => plan.draw_options(world, profile),
            }
            locks.push(plan);
        }
        locks
    }

    fn draw_kind(&mut self, world: &World, profile: &Profile) {
        let which = match profile.shape {
            Shape::Any => world.choose(5),
            Shape::Mutexes => 0,
            Shape::ReadWrite => 2,
            Shape::Permits => 4,
        };
        self.family = match which {
            0 | 1 => Family::Mutex,
            2 | 3 => Family::ReadWrite,
            _ => Family::Permits(1 + world.choose(profile.permits)),
        };
        let layouts: &[Layout] = match self.family {
            Family::Mutex => &[Layout::Kazoo, Layout::Numbered, Layout::OneNode],
            Family::ReadWrite => &[Layout::Kazoo, Layout::ReadWrite, Layout::Hosts],
            Family::Permits(_) => &[Layout::Kazoo],
        };
        let other = world.seldom(1 + layouts.len() as u32, profile.layouts) as usize;
        if let Some(other) = other.checked_sub(1) {
            self.layout = layouts[other];
        }
        match self.family {
            Family::ReadWrite if !self.layout.is_plain() => {
                self.mixed = world.seldom(2, profile.mixes) == 1;
            }
            Family::Permits(_) => {
                let limited_at = if profile.confused < 1_000 { 400 } else { 0 };
                self.limited_at =
                    self.layout == Layout::Curator && world.seldom(2, limited_at) == 1;
                self.confused = !self.limited_at && world.seldom(2, profile.confused) == 1;
                self.administered = profile.rights > 0 && world.choose(2) == 1;
            }
            _ => {}
        }
    }

    fn draw_marks(&mut self, world: &World) {
        let usual = LockOptions::default();
        self.options = match self.family {
            Family::Mutex if world.choose(2) == 1 => {
                usual.hold_at_least(Duration::from_millis(500))
            }
            _ => usual.lock_delay(Duration::from_millis(1_000)),
        };
    }

    fn draw_limits(&mut self, world: &World) {
        let limit = Duration::from_millis([20, 300, 1_500][world.choose(3) as usize]);
        self.options = LockOptions::default().hold_at_most(limit);
    }

    fn draw_turns(&mut self, world: &World) {
        let (most, millis) = [(1, 60_000), (3, 60_000), (1_000, 20)][world.choose(3) as usize];
        let handoffs = Handoffs::new().most(most).within(Duration::from_millis(millis));
        self.options = LockOptions::default().handoffs(handoffs);
    }

    fn draw_lingering(&mut self, world: &World) {
        let long = Duration::from_millis([200, 2_000, 5_000][world.choose(3) as usize]);
        self.options = LockOptions::default().linger(long);
        self.lingers = true;
    }

    fn draw_options(&mut self, world: &World, profile: &Profile) {
        if self.layout.is_plain() || self.confused {
            return;
        }
        let millis = |choices: &[u64]| {
            let at = world.choose(choices.len() as u32) as usize;
            Duration::from_millis(choices[at])
        };
        let mut options = LockOptions::default();
        if world.seldom(2, 200) == 1 {
            options = options.handoffs(Handoffs::NONE);
        } else if world.seldom(2, 200) == 1 {
            options = options.handoffs(Handoffs::new().most(1).within(Duration::from_secs(60)));
        }
        if world.seldom(2, 200) == 1 {
            options = options.revocable(true);
        }
        if world.seldom(2, if profile.anew { 700 } else { 150 }) == 1 {
            options = options.stop_at(StopAt::Suspect);
        }
        match world.seldom(if profile.deep { 6 } else { 5 }, 400) {
            1 => options = options.fair(true),
            2 if !self.has_permits() => {
                options = options.linger(millis(&[20, 200, 2_000]));
                self.lingers = true;
            }
            3 if !self.has_permits() => {
                options = options.lock_delay(millis(&[100, 1_000]));
            }
            4 if self.family == Family::Mutex => {
                options = options.hold_at_least(millis(&[300, 1_000]));
            }
            5 => options = options.hold_at_most(millis(&[20, 300])),
            _ => {}
        }
        if !self.has_permits() && world.seldom(2, 100) == 1 {
            options = options.reentrant(false);
        }
        self.options = options;
    }

    /// The node with the limit of a semaphore.
    pub fn limit_node(&self) -> String {
        format!("limits/{}", self.name)
    }

    /// Where the nodes of those are who wait for it: for a semaphore, in the queue of its inner lock.
    pub fn queue(&self) -> String {
        match (self.family, self.layout) {
            (Family::Permits(_), Layout::Kazoo) => format!("/zklock/{}-__lock__/", self.name),
            (Family::Permits(_), _) => format!("/zklock/{}/locks/", self.name),
            _ => format!("/zklock/{}/", self.name),
        }
    }

    /// Where the nodes of those are who hold it.
    pub fn directory(&self) -> String {
        match (self.family, self.layout) {
            (Family::Permits(_), Layout::Curator) => format!("/zklock/{}/leases", self.name),
            _ => format!("/zklock/{}", self.name),
        }
    }

    /// The directories that an administrator makes, each below those before it, with what others may do there: what
    /// the node with the limit of kazoo's semaphore says is not for all to write.
    pub fn directories(&self) -> Vec<(String, Access)> {
        let queue = self.queue().trim_end_matches('/').to_owned();
        let lock = format!("/zklock/{}", self.name);
        let mut made = vec!["/zklock".to_owned(), lock, self.directory(), queue];
        made.dedup();
        let access: Vec<_> = made.iter().map(|path| self.access(path)).collect();
        made.into_iter().zip(access).collect()
    }

    /// What others may do with one of its directories, where nothing goes wrong.
    pub fn access(&self, directory: &str) -> Access {
        let says = self.layout == Layout::Kazoo && self.has_permits();
        let kept = self.administered && says && directory == self.directory();
        if kept { Access::Kept(RIGHTS) } else { Access::Open }
    }

    /// The node with which another program contends for the lock, without its number, if it has one.
    pub fn node_of_another(&self, reads: bool, number: u64) -> (String, NodeKind) {
        let reads = reads && self.family == Family::ReadWrite;
        let word = |read: &'static str, other: &'static str| if reads { read } else { other };
        let hyphenated = format!("_c_{number:08x}-0000-4000-8000-000000000000");
        let name = match (self.layout, self.family) {
            (Layout::Curator, Family::ReadWrite) => {
                format!("{hyphenated}-{}", word("__READ__", "__WRIT__"))
            }
            (Layout::Curator, _) => format!("{hyphenated}-lock-"),
            (Layout::Kazoo, _) => format!("{number:032x}{}", word("__rlock__", "__lock__")),
            (Layout::Numbered, _) => "lock-".to_owned(),
            (Layout::ReadWrite, _) => word("read-node", "write-node").to_owned(),
            (Layout::Hosts, _) => format!("another-{}-", word("R", "W")),
            (Layout::OneNode, _) => return (self.queue() + "lock", NodeKind::Ephemeral),
        };
        (self.queue() + &name, NodeKind::EphemeralSequential)
    }

    /// Whether a node with which another program contends for the lock lets readers in.
    pub fn is_of_a_reader(&self, path: &str) -> bool {
        let signs = ["__READ__", "__rlock__", "read-node", "-R-"];
        self.family == Family::ReadWrite && signs.iter().any(|sign| path.contains(sign))
    }

    /// The same for those who do not let it linger.
    pub fn for_a_try(&self) -> LockPlan {
        let mut plan = self.clone();
        plan.options.linger = None;
        plan
    }

    /// How long it lingers, in microseconds.
    pub fn linger(&self) -> u64 {
        self.options.linger.map_or(0, |linger| linger.as_micros() as u64)
    }

    /// Whether it is a semaphore.
    pub fn has_permits(&self) -> bool {
        matches!(self.family, Family::Permits(_))
    }

    /// Whether who holds it may ask for it again, inside.
    pub fn is_reentrant(&self) -> bool {
        self.options.reentrant != Some(false)
    }

    /// Whether its holders can be asked to let go, from their grant on.
    pub fn is_revocable(&self) -> bool {
        self.options.revocable == Some(true)
    }

    /// Whether its calls are served in their order.
    pub fn is_fair(&self) -> bool {
        self.options.fair == Some(true)
    }

    /// How long it is kept from each grant, in microseconds.
    pub fn hold(&self) -> u64 {
        self.options.hold_at_least.map_or(0, |hold| hold.as_micros() as u64)
    }

    /// How long it rests after a loss, in microseconds.
    pub fn delay(&self) -> u64 {
        self.options.lock_delay.map_or(0, |delay| delay.as_micros() as u64)
    }

    /// How long a guard of it is valid at most, in microseconds.
    pub fn most(&self) -> Option<u64> {
        self.options.hold_at_most.map(|most| most.as_micros() as u64)
    }

    /// Whether it may be busy though nobody holds it.
    pub fn rests(&self) -> bool {
        self.hold() + self.delay() > 0 || self.limited_at
    }

    /// Within what the lock is handed on.
    pub fn handoffs(&self) -> Handoffs {
        self.options.handoffs.unwrap_or_default()
    }

    /// Whether a guard of it stops where its session is suspect.
    pub fn stops_early(&self) -> bool {
        self.options.stop_at == Some(StopAt::Suspect)
    }

    /// How much of the lock a guard takes, and how much there is.
    pub fn share(&self, lock: &AnyLock) -> (u32, u32) {
        match (self.family, lock) {
            // It was more, and those who hold stay.
            (Family::Permits(_), AnyLock::Permits(_, permits)) if self.limited_at => {
                (*permits, MOST_PERMITS)
            }
            // Who takes it for something else is not always seen, and is beside it then.
            (Family::Permits(_), AnyLock::Permits(_, permits)) if self.confused => {
                (*permits, 2 * ROOM - 1)
            }
            (Family::Permits(limit), AnyLock::Permits(_, permits)) => (*permits, limit),
            (_, AnyLock::Read(_)) => (1, ROOM),
            _ => (ROOM, ROOM),
        }
    }

    /// The lock in a session, in a mode that is drawn, with so long to wait.
    ///
    /// # Errors
    ///
    /// What the library says of the options.
    pub fn lock(
        &self,
        world: &World,
        session: &Session,
        timeout: Option<(Duration, u32)>,
    ) -> Result<AnyLock, LockError> {
        let mut options = self.options;
        if let Some((timeout, tries)) = timeout {
            options = options.timeout(timeout).retries(tries);
        }
        if self.alone && world.choose(2) == 1 {
            options = options.fair(true);
        }
        Ok(match self.family {
            Family::Permits(_) if self.confused && world.choose(3) == 0 => {
                AnyLock::Mutex(self.mutex(session)?.with_options(options))
            }
            Family::Mutex => AnyLock::Mutex(self.mutex(session)?.with_options(options)),
            Family::ReadWrite if self.mixed && world.choose(4) == 0 => {
                AnyLock::Mutex(self.mutex(session)?.with_options(options))
            }
            Family::ReadWrite => {
                let lock = session.rw_lock(self.name)?;
                let lock = match self.layout {
                    Layout::Kazoo => lock.with_driver(Kazoo::default()),
                    Layout::ReadWrite => lock.with_driver(ReadWriteNodes),
                    Layout::Hosts => lock.with_driver(host()),
                    _ => lock,
                };
                let lock = lock.with_options(options);
                if world.choose(self.writers) == 0 {
                    AnyLock::Write(lock)
                } else {
                    AnyLock::Read(lock)
                }
            }
            Family::Permits(limit) => {
                let lock = if self.limited_at {
                    session.semaphore_with_limit_at(self.name, self.limit_node(), limit)?
                } else if self.confused && world.choose(3) == 0 {
                    session.semaphore(self.name, limit + 1)?
                } else {
                    session.semaphore(self.name, limit)?
                };
                let lock = match self.layout {
                    Layout::Kazoo if self.identified && world.choose(2) == 1 => {
                        lock.with_driver(Kazoo::default().identifier(IDENTIFIER))
                    }
                    Layout::Kazoo => lock.with_driver(Kazoo::default()),
                    _ => lock,
                };
                AnyLock::Permits(lock.with_options(options), 1 + world.choose(limit))
            }
        })
    }

    fn mutex(&self, session: &Session) -> Result<Mutex, LockError> {
        let lock = session.mutex(self.name)?;
        Ok(match self.layout {
            Layout::Kazoo => lock.with_driver(Kazoo::default()),
            Layout::Numbered => lock.with_driver(Numbered::lock()),
            Layout::OneNode => lock.with_driver(OneNode),
            Layout::Curator | Layout::ReadWrite | Layout::Hosts => lock,
        })
    }
}
