//! What a history says of its grants.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use zklock_checker::History;
use zklock_test_support::{CreateMode, Ensemble, RawClient, RawError};

use super::draw::IN_ORDER;
use super::hands::DATA;

/// ZooKeeper's code.
const NODE_EXISTS: i32 = -110;

/// Figures about the grants of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// All holds; a multi-lock has one for each member.
    pub holds: usize,
    /// Those that were claimed for longer than a heartbeat.
    pub over_a_heartbeat: usize,
    /// Those that were claimed for longer than a lease.
    pub over_a_lease: usize,
    /// Those that lost their node to an outsider: from then on they need not have been alone.
    pub excused: usize,
    /// Fenced writes that succeeded.
    pub writes: usize,
    /// Holds in the scope of another of the same lock.
    pub nested: usize,
    /// Writers that stepped down.
    pub stepped_down: usize,
    /// Holders that were asked to let go, and told so.
    pub asked: usize,
    /// Grants for which a thread waited.
    pub on_threads: usize,
    /// Grants of several locks as one that were not all taken in the same way.
    pub mixed: usize,
    /// Holds whose time was over before they were given back.
    pub too_long: usize,
}

impl Figures {
    pub(super) fn of(history: &History, session_timeout: Duration) -> Self {
        let timeout = u64::try_from(session_timeout.as_nanos()).unwrap_or(u64::MAX);
        let all = &history.holds;
        let longer = |than: u64| {
            let claimed = |hold: &&zklock_checker::Hold| {
                hold.claimed.is_some_and(|until| until.saturating_sub(hold.granted) > than)
            };
            all.iter().filter(claimed).count()
        };
        let granted = || history.calls.iter().filter(|call| call.hold.is_some());
        let refused = history.refusals.iter().filter(|refusal| refusal.op == "release");
        Figures {
            holds: all.len(),
            over_a_heartbeat: longer(timeout / 6),
            over_a_lease: longer(timeout),
            excused: all.iter().filter(|hold| hold.removed.is_some()).count(),
            writes: history.writes.len(),
            nested: all.iter().filter(|hold| hold.parent.is_some()).count(),
            stepped_down: all.iter().filter(|hold| hold.stepped_down.is_some()).count(),
            asked: all.iter().filter(|hold| hold.revoked.is_some()).count(),
            on_threads: granted().filter(|call| call.blocking).count(),
            mixed: granted()
                .filter(|call| call.modes.windows(2).any(|two| two[0] != two[1]))
                .count(),
            too_long: refused.filter(|refusal| refusal.error == "held_too_long").count(),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { holds, over_a_heartbeat, over_a_lease, excused, .. } = self;
        let share = 100.0 * *excused as f64 / (*holds).max(1) as f64;
        writeln!(
            f,
            "{holds} holds, {over_a_heartbeat} over a heartbeat, {over_a_lease} over a lease, \
             {excused} excused ({share:.2} %)"
        )?;
        let Figures { writes, nested, stepped_down, asked, on_threads, mixed, too_long, .. } = self;
        writeln!(
            f,
            "{writes} fenced writes, {nested} nested, {stepped_down} stepped down, {asked} asked to \
             let go"
        )?;
        write!(f, "{on_threads} on threads, {mixed} of several kinds as one, {too_long} too long")
    }
}

/// Makes the nodes that are written to under locks.
pub(super) fn make_data(ensemble: &Ensemble, other_layout: &str) {
    let mut paths = vec![DATA.to_owned()];
    for layout in BTreeSet::from(["curator", "kazoo", other_layout]) {
        for name in ["mutex", "slow", "delayed", "kept", "both"] {
            paths.extend((0..24).map(|number| format!("{DATA}/{layout}-{name}-{number}")));
        }
        paths.extend((0..IN_ORDER).map(|number| format!("{DATA}/{layout}-fair-{number}")));
    }
    let limit = Instant::now() + Duration::from_secs(60);
    while let Err(error) = make_all(ensemble, &paths) {
        // Servers that have just found together may part once more.
        assert!(Instant::now() < limit, "{error:?}");
    }
}

fn make_all(ensemble: &Ensemble, paths: &[String]) -> Result<(), RawError> {
    let addr = ensemble.server(ensemble.leader()).addr();
    let mut client = RawClient::connect(&addr, Duration::from_secs(10))?;
    for path in paths {
        match client.create(path, b"", CreateMode::Persistent) {
            Ok(_) | Err(RawError::Code(NODE_EXISTS)) => {}
            Err(error) => return Err(error),
        }
    }
    client.close()
}
