//! What a history says of its grants.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use zklock_checker::{History, Hold, Mode, Token};
use zklock_test_support::{CreateMode, Ensemble, RawClient, RawError};

use super::agent::ROOT;
use super::draw::{IN_ORDER, TWIN, limits};
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
    /// Grants of permits, the peers' left out.
    pub permits: usize,
    /// Those whose limit is in a node.
    pub limits_in_nodes: usize,
    /// Those in kazoo's layout.
    pub permits_of_kazoo: usize,
    /// Permits that were split off.
    pub split: usize,
    /// Holds whose time was over before they were given back.
    pub too_long: usize,
}

impl Figures {
    pub(super) fn of(history: &History, session_timeout: Duration) -> Self {
        let timeout = u64::try_from(session_timeout.as_nanos()).unwrap_or(u64::MAX);
        let all = &history.holds;
        let longer = |than: u64| {
            let claimed = |hold: &&Hold| {
                hold.claimed.is_some_and(|until| until.saturating_sub(hold.granted) > than)
            };
            all.iter().filter(claimed).count()
        };
        let granted = || history.calls.iter().filter(|call| call.hold.is_some());
        let refused = history.refusals.iter().filter(|refusal| refusal.op == "release");
        let peers = |hold: &Hold| hold.token == Token::default();
        let permits = |of: &dyn Fn(&str) -> bool| {
            let counts = |hold: &&Hold| {
                hold.mode == Mode::Permit
                    && hold.split_from.is_none()
                    && !peers(hold)
                    && of(&history.locks[hold.lock])
            };
            all.iter().filter(counts).count()
        };
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
            permits: permits(&|_| true),
            limits_in_nodes: permits(&|lock| lock.contains(&format!("{TWIN}-"))),
            permits_of_kazoo: permits(&|lock| lock.starts_with("kazoo/")),
            split: all.iter().filter(|hold| hold.split_from.is_some()).count(),
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
        writeln!(
            f,
            "{on_threads} on threads, {mixed} of several kinds as one, {too_long} too long"
        )?;
        let Figures { permits, limits_in_nodes, permits_of_kazoo, split, .. } = self;
        write!(
            f,
            "{permits} grants of permits, {limits_in_nodes} with a limit in a node and \
             {permits_of_kazoo} of kazoo's; {split} split off"
        )
    }
}

/// Makes the nodes that are written to under locks, and those with limits.
pub(super) fn make_data(ensemble: &Ensemble, other_layout: &str) {
    let mut paths = vec![DATA.to_owned(), ROOT.to_owned(), format!("{ROOT}/limits")];
    for layout in BTreeSet::from(["curator", "kazoo", other_layout]) {
        for name in ["mutex", "slow", "delayed", "kept", "both"] {
            paths.extend((0..24).map(|number| format!("{DATA}/{layout}-{name}-{number}")));
        }
        paths.extend((0..IN_ORDER).map(|number| format!("{DATA}/{layout}-fair-{number}")));
    }
    let mut nodes: Vec<_> = paths.into_iter().map(|path| (path, Vec::new())).collect();
    // As Curator's `SharedCount` writes it.
    let number =
        |(node, limit): (String, u32)| (format!("{ROOT}/{node}"), limit.to_be_bytes().into());
    nodes.extend(limits().into_iter().map(number));
    let limit = Instant::now() + Duration::from_secs(60);
    while let Err(error) = make_all(ensemble, &nodes) {
        // Servers that have just found together may part once more.
        assert!(Instant::now() < limit, "{error:?}");
    }
}

fn make_all(ensemble: &Ensemble, nodes: &[(String, Vec<u8>)]) -> Result<(), RawError> {
    let addr = ensemble.server(ensemble.leader()).addr();
    let mut client = RawClient::connect(&addr, Duration::from_secs(10))?;
    for (path, data) in nodes {
        match client.create(path, data, CreateMode::Persistent) {
            Ok(_) | Err(RawError::Code(NODE_EXISTS)) => {}
            Err(error) => return Err(error),
        }
    }
    client.close()
}
