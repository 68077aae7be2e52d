//! What is broken, and when it heals.

use std::fmt;
use std::time::Duration;

use zklock_test_support::{Action, Cut, Direction, Matcher, OpCode};

use crate::locks::Kind;

/// The session timeout of whoever is broken. Two of them must be enough for what a busy machine
/// adds to the end of a case.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// What happens at the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is lost with its connection, in order.
    Fin,
    /// It is lost with its connection, at once.
    Reset,
    /// Half of it arrives, and then the connection ends.
    Torn,
    /// It and all after it stay on the way, in both directions.
    BlackHole,
    /// It and all behind it come late.
    Delay,
    /// The reply is lost: that of a request whose connection is reset behind it; or the frame is a
    /// reply, and from it on the victim is deaf, while the server goes on hearing it.
    LostReply,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] =
        [Fault::Fin, Fault::Reset, Fault::Torn, Fault::BlackHole, Fault::Delay, Fault::LostReply];
}

/// When the network is whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heal {
    /// While the session lives.
    Before,
    /// When the server has ended the session.
    After,
}

impl Heal {
    /// How long after the fault.
    pub fn after(self) -> Duration {
        match self {
            Heal::Before => SESSION_TIMEOUT.mul_f64(0.15),
            Heal::After => SESSION_TIMEOUT.mul_f64(1.5),
        }
    }
}

/// What the victim finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// No session yet: the victim opens one for its lock.
    Opening,
    /// A lock that nobody ever took: its directory is made on the way.
    New,
    /// A lock that somebody holds, and then releases.
    Held,
    /// A lock that the victim holds for some heartbeats.
    Kept,
}

impl Scene {
    /// All of them.
    pub const ALL: [Scene; 4] = [Scene::Opening, Scene::New, Scene::Held, Scene::Kept];

    /// How long the victim holds its lock: a few looks at the guard, or three heartbeats.
    pub fn hold(self) -> Duration {
        match self {
            Scene::Opening | Scene::New | Scene::Held => Duration::from_millis(15),
            Scene::Kept => SESSION_TIMEOUT / 2,
        }
    }

    /// Whether a frame belongs to it: what opens a session, or what comes behind it. Heartbeats belong where
    /// they are waited for, and what only keeps a session alive, which comes when it likes, nowhere.
    pub(super) fn has(self, opcode: OpCode) -> bool {
        match self {
            Scene::Opening => matches!(opcode, OpCode::Connect | OpCode::Exists),
            Scene::New | Scene::Held => {
                !opcode.keeps_alive()
                    && !matches!(
                        opcode,
                        OpCode::Multi | OpCode::SetWatches | OpCode::SetWatches2 | OpCode::Connect
                    )
            }
            Scene::Kept => opcode == OpCode::Multi,
        }
    }
}

/// One frame of a run in which nothing is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which way it goes.
    pub direction: Direction,
    /// The operation.
    pub opcode: OpCode,
    /// The how many-eth of these it is.
    pub nth: u64,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The lock.
    pub kind: Kind,
    /// What is there before.
    pub scene: Scene,
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
    /// Until when.
    pub heal: Heal,
    /// The frame of the repair that is struck when the network is whole again: the first of these.
    pub again: Option<(Direction, OpCode)>,
}

/// What is struck again: connections, the watches that are set anew, and looks.
const AGAIN: [(Direction, OpCode); 6] = [
    (Direction::ToServer, OpCode::Connect),
    (Direction::ToClient, OpCode::Connect),
    (Direction::ToServer, OpCode::SetWatches),
    (Direction::ToClient, OpCode::SetWatches),
    (Direction::ToClient, OpCode::Sync),
    (Direction::ToClient, OpCode::GetChildren),
];

impl Case {
    /// The frame.
    pub fn matcher(&self) -> Matcher {
        Matcher::any(self.place.direction).or(self.place.opcode).nth(self.place.nth)
    }

    /// What the proxy does with it.
    pub fn action(&self) -> Action {
        match (self.fault, self.place.direction) {
            (Fault::Fin, _) => Action::DropAndCut(Cut::Fin),
            (Fault::Reset, _) => Action::DropAndCut(Cut::Reset),
            (Fault::Torn, _) => Action::TearAndCut(Cut::Fin),
            (Fault::BlackHole, _) => Action::Hold,
            (Fault::Delay, _) => Action::Delay(self.heal.after()),
            (Fault::LostReply, Direction::ToServer) => Action::ForwardAndCut(Cut::Reset),
            (Fault::LostReply, Direction::ToClient) => Action::Drop,
        }
    }

    /// Whether the victim must not come back before it heals.
    pub fn refuses(&self) -> bool {
        !matches!(self.fault, Fault::BlackHole | Fault::Delay) && !self.is_cut_only()
    }

    /// Whether the victim must keep what it has or gets: its connection is cut and may come back at once,
    /// or late by less than any lease. Who is refused once waits for a second before it tries again, and
    /// of so short a session the lease may be over then.
    pub fn is_short(&self) -> bool {
        let is_late = self.fault == Fault::Delay && self.heal == Heal::Before;
        is_late || self.is_cut_only()
    }

    fn is_cut_only(&self) -> bool {
        let cuts = matches!(self.fault, Fault::Fin | Fault::Reset);
        cuts && self.heal == Heal::Before && self.again.is_none()
    }

    /// What the proxy does with the frame of the repair.
    pub fn second(&self) -> Option<(Matcher, Action)> {
        let (direction, opcode) = self.again?;
        let mut matcher = Matcher::any(direction).or(opcode);
        if opcode == OpCode::SetWatches {
            matcher = matcher.or(OpCode::SetWatches2);
        }
        let action = match direction {
            Direction::ToServer => Action::DropAndCut(Cut::Reset),
            Direction::ToClient => Action::TearAndCut(Cut::Fin),
        };
        Some((matcher.nth(1), action))
    }

    /// Whether nothing comes to the victim any more, though it is connected.
    pub fn deafens(&self) -> bool {
        self.fault == Fault::LostReply && self.place.direction == Direction::ToClient
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { kind, scene, place, fault, heal, again } = self;
        let way = match place.direction {
            Direction::ToServer => "request",
            Direction::ToClient => "reply",
        };
        let (opcode, nth) = (place.opcode, place.nth);
        write!(f, "{kind:?}, {scene:?}, {way} {opcode:?} {nth}, {fault:?}, heals {heal:?}")?;
        again.map_or(Ok(()), |(way, opcode)| write!(f, ", again at {opcode:?} {way:?}"))
    }
}

/// In how many ways each place is broken.
const SORTS: usize = Fault::ALL.len() * 2 + AGAIN.len();

/// So many cases of each kind of lock: the places evenly, and every sort of fault as often, because seven
/// and the number of sorts have no divisor in common.
pub fn some(places: &[(Kind, Scene, Vec<Place>)], of_each_kind: usize) -> Vec<Case> {
    let mut chosen = Vec::new();
    for kind in Kind::ALL {
        let of_kind: Vec<_> = places.iter().filter(|(one, ..)| *one == kind).cloned().collect();
        let cases = all(&of_kind);
        let places = cases.len() / SORTS;
        let first = chosen.len();
        chosen.extend((0..of_each_kind).map(|number| {
            let sort = (first + number) * 7 % SORTS;
            cases[number * places / of_each_kind * SORTS + sort]
        }));
    }
    chosen
}

/// Every case of these places: all of one place, then those of the next.
pub fn all(places: &[(Kind, Scene, Vec<Place>)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, scene, places) in places {
        for place in places {
            let (kind, scene, place) = (*kind, *scene, *place);
            for fault in Fault::ALL {
                for heal in [Heal::Before, Heal::After] {
                    cases.push(Case { kind, scene, place, fault, heal, again: None });
                }
            }
            for again in AGAIN {
                let (fault, heal, again) = (Fault::Reset, Heal::Before, Some(again));
                cases.push(Case { kind, scene, place, fault, heal, again });
            }
        }
    }
    cases
}
