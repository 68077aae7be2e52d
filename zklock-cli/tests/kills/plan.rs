//! What happens in a round: the same for the same seed, except for the moments at which processes run.

use std::time::Duration;

/// How many commands want the lock.
pub(crate) const COMMANDS: usize = 3;

/// The session timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL of the process that holds the lock.
    Kill,
    /// SIGTERM of it.
    Terminate,
    /// SIGSTOP of it, and SIGCONT later.
    Stop,
    /// SIGKILL of the command.
    KillCommand,
    /// SIGKILL of the process that guards it.
    KillGuardian,
    /// SIGKILL of both at once. The command dies; what it has started is beyond help, so it starts nothing.
    KillBoth,
    /// SIGKILL of the server, which is started again later.
    KillServer,
    /// SIGSTOP of the server.
    StopServer,
    /// The connections are cut.
    Cut,
    /// The network swallows everything.
    Swallow,
    /// The connections are cut, and no others are accepted.
    Refuse,
}

pub(crate) const FAULTS: [Fault; 11] = [
    Fault::Stop,
    Fault::Kill,
    Fault::Swallow,
    Fault::KillCommand,
    Fault::KillServer,
    Fault::Terminate,
    Fault::Refuse,
    Fault::KillGuardian,
    Fault::StopServer,
    Fault::KillBoth,
    Fault::Cut,
];

impl Fault {
    /// Whether it hits all commands, and not one.
    pub(crate) fn is_of_the_server(self) -> bool {
        matches!(self, Fault::KillServer | Fault::StopServer)
    }

    /// Whether it can cost the lock, if it lasts.
    pub(crate) fn may_cost_the_lock(self) -> bool {
        let network = matches!(self, Fault::Cut | Fault::Swallow | Fault::Refuse);
        network || self == Fault::Stop || self.is_of_the_server()
    }
}

/// What the commands want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    ReadWrite,
    /// Of two permits.
    Semaphore,
}

const KINDS: [Kind; 3] = [Kind::Mutex, Kind::ReadWrite, Kind::Semaphore];

/// A command, and how it wants the lock.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) begins: Duration,
    pub(crate) life: Duration,
    pub(crate) deaf: bool,
    pub(crate) forks: bool,
    /// Lives until the fault is over.
    pub(crate) patient: bool,
    /// Gives up after a short time.
    pub(crate) hurried: bool,
    /// Of a read/write lock.
    pub(crate) reads: bool,
}

/// What happens in a round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) fault: Fault,
    /// When it happens: after the start, or after the first command runs.
    pub(crate) moment: Duration,
    pub(crate) once_one_runs: bool,
    /// Whom it hits: who runs, or this one.
    pub(crate) who: Option<usize>,
    /// For how long, where it does not last.
    pub(crate) time: Duration,
    /// The servers that a fault of the server hits.
    pub(crate) servers: Vec<usize>,
    /// Whether those who are left are no majority.
    pub(crate) no_quorum: bool,
    /// The server that shows the nodes. What is hit may show what was, for a moment.
    pub(crate) shown_by: usize,
}

impl Plan {
    /// The plan of a round, with so many servers.
    pub(crate) fn of(seed: u64, round: u64, all: usize) -> Self {
        let mut random = Random(seed.wrapping_add(round.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        // The first numbers are much like the seed.
        random.below(2);
        // In turn, so that a few rounds have them all.
        let turn = |length: usize| usize::try_from((seed % 33 + round) % length as u64).unwrap();
        let fault = FAULTS[turn(FAULTS.len())];
        let mut wish = |number| Wish {
            begins: random.millis(0, 200),
            life: random.millis(50, 500),
            deaf: random.below(2) == 0,
            forks: random.below(2) == 0 && fault != Fault::KillBoth,
            patient: random.below(4) != 0,
            hurried: number == 0 && random.below(4) == 0,
            reads: random.below(3) != 0,
        };
        let wishes = (0..COMMANDS).map(&mut wish).collect();
        let long = random.below(2) == 0;
        let first = usize::try_from(random.below(all as u64)).unwrap();
        let hit = 1 + usize::try_from(random.below(all.div_ceil(2) as u64)).unwrap();
        Plan {
            kind: KINDS[turn(KINDS.len())],
            wishes,
            fault,
            servers: (first..first + hit).map(|index| index % all).collect(),
            no_quorum: all - hit <= all / 2,
            shown_by: (first + hit) % all,
            moment: random.millis(0, 800),
            once_one_runs: random.below(3) != 0,
            who: (random.below(4) == 0)
                .then(|| usize::try_from(random.below(COMMANDS as u64)).unwrap()),
            time: if long { random.millis(4_500, 7_000) } else { random.millis(100, 3_000) },
        }
    }

    /// How a command says what it wants.
    pub(crate) fn mode(&self, wish: &Wish) -> &'static str {
        match self.kind {
            Kind::Mutex => "mutex",
            Kind::ReadWrite if wish.reads => "read",
            Kind::ReadWrite => "write",
            Kind::Semaphore => "semaphore:2",
        }
    }

    /// Those of whom at least one may not run while the others do.
    pub(crate) fn excluded(&self) -> Vec<Vec<usize>> {
        let all = || 0..COMMANDS;
        let pairs = all().flat_map(|one| all().skip(one + 1).map(move |other| vec![one, other]));
        let both_read = |pair: &Vec<usize>| pair.iter().all(|who| self.wishes[*who].reads);
        match self.kind {
            Kind::Mutex => pairs.collect(),
            Kind::ReadWrite => pairs.filter(|pair| !both_read(pair)).collect(),
            Kind::Semaphore => vec![all().collect()],
        }
    }

    /// Whether nobody keeps the lock through the fault.
    pub(crate) fn is_long(&self) -> bool {
        // The server looks for sessions that are over each tick.
        self.time > TIMEOUT + Duration::from_millis(400)
    }
}

/// Knuth's linear congruential generator; the low bits are not used.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}
