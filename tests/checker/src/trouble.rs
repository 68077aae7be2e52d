//! When somebody had reason to be late or to fail, and when not.

use std::collections::HashMap;

use crate::calls::Call;

/// How long servers and clients may need to get over a fault, in nanoseconds: an election, a
/// connection, an acquire anew.
pub(crate) const SETTLES: u64 = 2_000_000_000;

/// A node that was taken away from outside.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Its path.
    pub node: String,
    /// When it was there for the last time, surely.
    pub from: u64,
    /// When it was gone, surely.
    pub at: u64,
    /// Whose it was, if that is known: an index into [`History::clients`](crate::History::clients).
    pub owner: Option<usize>,
    /// Whose session it went with.
    pub session: Option<usize>,
    /// Whether it may be there still.
    pub unsure: bool,
}

/// No stop and no pause of the machine is longer, in nanoseconds.
const LONG: u64 = 60_000_000_000;

/// The fault of a client that does not run until it is over.
const STOPPED: &str = "client stopped";

/// For how long somebody waited within a time: from, until, and how much of it, in nanoseconds.
type Waits = (u64, u64, u64);

/// What was done to all and to each.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// By client, `None` for servers: from, until, and which.
    outages: HashMap<Option<usize>, Vec<(u64, u64, String)>>,
    started: HashMap<usize, u64>,
    /// By client: when it said how it is, and whether it is connected.
    states: HashMap<usize, Vec<(u64, bool)>>,
    /// By client: when it was stopped.
    stops: HashMap<usize, Vec<(u64, u64)>>,
    /// When the machine had no time for a thread that only sleeps.
    late: Vec<(u64, u64)>,
    /// When the host gave a processor of the machine to others.
    stolen: Vec<Waits>,
    /// By client: how long the threads that every answer needs waited for a processor.
    starved: HashMap<usize, Vec<Waits>>,
    /// The same of those that wait for blocking acquires.
    blocking_starved: HashMap<usize, Vec<Waits>>,
    /// When a server took long for what the driver asked it.
    slow: Vec<(u64, u64)>,
}

impl Trouble {
    pub(crate) fn begins(&mut self, client: Option<usize>, which: &str, at: u64) {
        self.outages.entry(client).or_default().push((at, at, which.to_owned()));
    }

    pub(crate) fn ends(&mut self, client: Option<usize>, which: &str, at: u64) {
        let all = self.outages.entry(client).or_default();
        if let Some((from, until, _)) = all.iter_mut().rev().find(|(.., one)| one == which) {
            *until = at;
            let stopped = client.filter(|_| which == STOPPED);
            if let Some((from, client)) = stopped.map(|client| (*from, client)) {
                self.stops.entry(client).or_default().push((from, at));
            }
        }
    }

    pub(crate) fn started(&mut self, client: usize, at: u64) {
        self.started.insert(client, at);
    }

    pub(crate) fn told(&mut self, client: usize, at: u64, connected: bool) {
        self.states.entry(client).or_default().push((at, connected));
    }

    pub(crate) fn late(&mut self, from: u64, until: u64) {
        self.late.push((from, until));
    }

    pub(crate) fn stolen(&mut self, from: u64, until: u64, stolen: u64) {
        self.stolen.push((from, until, stolen));
    }

    pub(crate) fn starved(&mut self, client: usize, from: u64, until: u64, waited: u64) {
        self.starved.entry(client).or_default().push((from, until, waited));
    }

    pub(crate) fn blocking_starved(&mut self, client: usize, from: u64, until: u64, waited: u64) {
        self.blocking_starved.entry(client).or_default().push((from, until, waited));
    }

    pub(crate) fn slow(&mut self, from: u64, until: u64) {
        self.slow.push((from, until));
    }

    /// Whether nothing was done to a client or to the servers in a time and shortly before, the client
    /// was connected all the while, and the servers answered others at once.
    pub(crate) fn is_quiet(&self, client: usize, from: u64, until: u64) -> bool {
        self.disturbed(client, from, until).is_none()
    }

    /// What there was instead.
    pub(crate) fn disturbed(&self, client: usize, from: u64, until: u64) -> Option<&'static str> {
        let begin = from.saturating_sub(SETTLES);
        let within = |at: u64| at >= begin && at <= until;
        let touched = |whose: Option<usize>| {
            let all = self.outages.get(&whose).map_or(&[][..], Vec::as_slice);
            all.iter().any(|(broken, whole, _)| *whole >= begin && *broken <= until)
        };
        if touched(None) {
            return Some("a fault of the servers");
        }
        if touched(Some(client)) {
            return Some("a fault of the client");
        }
        if self.started.get(&client).is_some_and(|at| *at > begin) {
            return Some("a client that has just started");
        }
        let states = self.states.get(&client).map_or(&[][..], Vec::as_slice);
        let connected = !states.iter().any(|(at, _)| within(*at))
            && states.iter().rfind(|(at, _)| *at < begin).is_none_or(|(_, connected)| *connected);
        if !connected {
            return Some("a client that is not connected");
        }
        (measured(&self.slow, from, until) > 0).then_some("slow servers")
    }

    /// When whatever a client left on the servers at a moment, and they keep for so long, has surely
    /// gone. Servers that do not find together let no session expire, and then each has all its time
    /// again.
    pub(crate) fn gone_by(&self, at: u64, kept: u64) -> u64 {
        let outages = self.outages.get(&None).map_or(&[][..], Vec::as_slice);
        outages.iter().fold(at.saturating_add(kept), |gone, (broken, whole, _)| {
            if *broken <= gone { gone.max(whole.saturating_add(kept)) } else { gone }
        })
    }

    /// For how long a process did not run in a time: it was stopped, or the machine had no time for the
    /// threads that every answer needs, or for anybody. Never more than that time.
    pub(crate) fn stood_still(&self, client: usize, from: u64, until: u64) -> u64 {
        self.did_not_run(client, false, from, until)
    }

    /// The same for a call, whose own thread may have to run as well.
    pub(crate) fn stood_still_for(&self, call: &Call, from: u64, until: u64) -> u64 {
        self.did_not_run(call.client, call.blocking, from, until)
    }

    fn did_not_run(&self, client: usize, blocking: bool, from: u64, until: u64) -> u64 {
        fn of<T>(all: &HashMap<usize, Vec<T>>, client: usize) -> &[T] {
            all.get(&client).map_or(&[], Vec::as_slice)
        }
        let stopped = shared(of(&self.stops, client), from, until);
        let mut starved = waited(of(&self.starved, client), from, until);
        if blocking {
            starved += waited(of(&self.blocking_starved, client), from, until);
        }
        // What is stolen counts as running, and not as waiting.
        starved += waited(&self.stolen, from, until);
        // On a machine that is late with all, these wait at the same time.
        let waited = starved.max(shared(&self.late, from, until));
        stopped.saturating_add(waited).min(until.saturating_sub(from))
    }
}

/// How much of a time these times take, which are in the order of their ends, at which they were
/// measured, and do not overlap.
fn shared(times: &[(u64, u64)], from: u64, until: u64) -> u64 {
    let first = times.partition_point(|(_, end)| *end < from);
    let near = times[first..].iter().take_while(|(_, end)| *end <= until.saturating_add(LONG));
    near.map(|(begin, end)| (*end).min(until).saturating_sub((*begin).max(from))).sum()
}

/// At most so much of a time these waits take, which are in the order of their ends.
fn waited(times: &[Waits], from: u64, until: u64) -> u64 {
    let first = times.partition_point(|(_, end, _)| *end < from);
    let near = times[first..].iter().take_while(|(_, end, _)| *end <= until.saturating_add(LONG));
    // When somebody waited within its time is not known.
    near.map(|(begin, end, waited)| {
        (*end).min(until).saturating_sub((*begin).max(from)).min(*waited)
    })
    .sum()
}

/// How long those of these times take that overlap with a time; they are in the order of their ends, at
/// which they were measured.
fn measured(times: &[(u64, u64)], from: u64, until: u64) -> u64 {
    let first = times.partition_point(|(_, end)| *end < from);
    let near = times[first..].iter().take_while(|(_, end)| *end <= until.saturating_add(LONG));
    let those = near.filter(|(begin, _)| *begin <= until);
    those.fold(0, |sum, (begin, end)| sum.saturating_add(end.saturating_sub(*begin)))
}
