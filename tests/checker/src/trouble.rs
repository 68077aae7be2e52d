//! When somebody had reason to be late or to fail, and when not.

use std::collections::HashMap;

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

/// What was done to all and to each.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// By client, `None` for servers: from, until, and which.
    outages: HashMap<Option<usize>, Vec<(u64, u64, String)>>,
    started: HashMap<usize, u64>,
    /// By client: when it said how it is, and whether it is connected.
    states: HashMap<usize, Vec<(u64, bool)>>,
    /// By client: requests that need nothing but the process, from when to when.
    probes: HashMap<usize, Vec<(u64, u64)>>,
    open: HashMap<(usize, u64), usize>,
    /// When the machine had no time for a thread that only sleeps.
    late: Vec<(u64, u64)>,
    /// By client: when its threads waited for a processor.
    starved: HashMap<usize, Vec<(u64, u64)>>,
    /// When a server took long for what the driver asked it.
    slow: Vec<(u64, u64)>,
}

impl Trouble {
    pub(crate) fn begins(&mut self, client: Option<usize>, which: &str, at: u64) {
        self.outages.entry(client).or_default().push((at, at, which.to_owned()));
    }

    pub(crate) fn ends(&mut self, client: Option<usize>, which: &str, at: u64) {
        let all = self.outages.entry(client).or_default();
        if let Some((_, until, _)) = all.iter_mut().rev().find(|(.., one)| one == which) {
            *until = at;
        }
    }

    pub(crate) fn started(&mut self, client: usize, at: u64) {
        self.started.insert(client, at);
    }

    pub(crate) fn told(&mut self, client: usize, at: u64, connected: bool) {
        self.states.entry(client).or_default().push((at, connected));
    }

    pub(crate) fn probed(&mut self, client: usize, id: u64, at: u64) {
        let probes = self.probes.entry(client).or_default();
        self.open.insert((client, id), probes.len());
        probes.push((at, u64::MAX));
    }

    pub(crate) fn answered(&mut self, client: usize, id: u64, at: u64) {
        if let Some(index) = self.open.remove(&(client, id))
            && let Some(probe) = self.probes.entry(client).or_default().get_mut(index)
        {
            probe.1 = at;
        }
    }

    pub(crate) fn late(&mut self, from: u64, until: u64) {
        self.late.push((from, until));
    }

    pub(crate) fn starved(&mut self, client: usize, from: u64, until: u64) {
        self.starved.entry(client).or_default().push((from, until));
    }

    pub(crate) fn slow(&mut self, from: u64, until: u64) {
        self.slow.push((from, until));
    }

    /// Whether nothing was done to a client or to the servers in a time and shortly before, the client
    /// was connected all the while, and the servers answered others at once.
    pub(crate) fn is_quiet(&self, client: usize, from: u64, until: u64) -> bool {
        let begin = from.saturating_sub(SETTLES);
        let within = |at: u64| at >= begin && at <= until;
        let untouched = |whose: Option<usize>| {
            let all = self.outages.get(&whose).map_or(&[][..], Vec::as_slice);
            !all.iter().any(|(broken, whole, _)| *whole >= begin && *broken <= until)
        };
        let states = self.states.get(&client).map_or(&[][..], Vec::as_slice);
        let connected = !states.iter().any(|(at, _)| within(*at))
            && states.iter().rfind(|(at, _)| *at < begin).is_none_or(|(_, connected)| *connected);
        let there = self.started.get(&client).is_none_or(|at| *at <= begin);
        let quick = measured(&self.slow, from, until) == 0;
        quick && there && connected && untouched(None) && untouched(Some(client))
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

    /// For how long a process did nothing in a time, as far as somebody asked it or the system says: it
    /// was stopped, or the machine had none for it, or for anybody.
    pub(crate) fn stood_still(&self, client: usize, from: u64, until: u64) -> u64 {
        let probes = self.probes.get(&client).map_or(&[][..], Vec::as_slice);
        let starved = self.starved.get(&client).map_or(&[][..], Vec::as_slice);
        overlapping(probes, from, until)
            .saturating_add(measured(starved, from, until))
            .saturating_add(measured(&self.late, from, until))
    }
}

/// How long those of these times take that overlap with a time; they are in the order of their ends, at
/// which they were measured.
fn measured(times: &[(u64, u64)], from: u64, until: u64) -> u64 {
    // None is longer.
    const LONG: u64 = 60_000_000_000;
    let first = times.partition_point(|(_, end)| *end < from);
    let near = times[first..].iter().take_while(|(_, end)| *end <= until.saturating_add(LONG));
    let those = near.filter(|(begin, _)| *begin <= until);
    those.fold(0, |sum, (begin, end)| sum.saturating_add(end.saturating_sub(*begin)))
}

/// How long those of these times take that overlap with a time; they are in order.
fn overlapping(times: &[(u64, u64)], from: u64, until: u64) -> u64 {
    // What is long begins early: a few before the first that begins later.
    let first = times.partition_point(|(begin, _)| *begin < from).saturating_sub(4);
    let near = times[first..].iter().take_while(|(begin, _)| *begin <= until);
    let those = near.filter(|(_, end)| *end >= from);
    those.fold(0, |sum, (begin, end)| sum.saturating_add(end.saturating_sub(*begin)))
}
