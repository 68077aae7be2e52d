//! What a schedule is about.

use crate::workload::{Corner, Family};

mod mix;

pub use mix::{MIX, SMALLEST};

/// What a schedule is about. What is not 0 or false is drawn anew for each schedule.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// How many processes there are.
    pub processes: u32,
    /// How many tasks each has.
    pub tasks: u32,
    /// How often each asks for a lock.
    pub rounds: u32,
    /// How many locks there are.
    pub locks: u32,
    /// How many servers there are at most; one or three.
    pub servers: usize,
    /// Whether there are other locks than mutexes with the usual options.
    pub kinds: bool,
    /// How many faults there are at most.
    pub faults: u32,
    /// How many of 1,000 requests are struck at most.
    pub strikes: u32,
    /// How many of 1,000 acquires are cancelled.
    pub cancels: u32,
    /// Whether somebody commits on the same session all the time.
    pub traffic: bool,
    /// What all locks are.
    pub shape: Shape,
    /// How many of 1,000 semaphores some take for a lock of another kind, or with another limit.
    pub confused: u32,
    /// How many permits there are at most.
    pub permits: u32,
    /// How many of 1,000 processes may do what others may not, where an administrator made the directory of a lock;
    /// 0 where none does.
    pub rights: u32,
    /// How many of 1,000 holders ask again, inside.
    pub nests: u32,
    /// Whether they ask again inside of that, and so on.
    pub deep: bool,
    /// Whether those who have lost a lock acquire it anew before they let go of it.
    pub anew: bool,
    /// How many of 1,000 rounds begin with a lock that nobody else wants.
    pub passes: u32,
    /// How many of 1,000 bodies panic, at their beginning or at their end.
    pub panics: u32,
    /// How many of 1,000 lines of the log panic.
    pub logs: u32,
    /// Whether callers wait about as long as an answer takes.
    pub hasty: bool,
    /// Whether tasks also do what few do.
    pub rare: bool,
    /// Whether all locks linger.
    pub lingers: bool,
    /// Whether some of those who use a lock that lingers let it linger, and others ask once.
    pub tries: bool,
    /// Whether turns are short.
    pub turns: bool,
    /// How many of 1,000 locks of other kinds have another layout than Curator's.
    pub layouts: u32,
    /// Whether all locks rest after grants or losses.
    pub marks: bool,
    /// Whether all locks are held for a limited time.
    pub limits: bool,
    /// Where it is set, what all locks are, and the network takes no time to choose from: for all
    /// schedules with few deviations.
    pub only: Option<Family>,
    /// What goes wrong.
    pub kinds_of_faults: Faults,
    /// How many of 1,000 holders hold for about as long as a session lasts.
    pub long: u32,
    /// How many of 1,000 answers, and notifications, are swallowed on a connection that lives on.
    pub forgets: u32,
    /// How many of 1,000 notifications alone are swallowed.
    pub unheard: u32,
    /// How many of 1,000 requests an outsider interferes with.
    pub meddles: u32,
    /// After how many of 1,000 requests an outsider deletes a node whose name recurs, which another program takes.
    pub retakes: u32,
    /// How many of 1,000 reads are refused, as if somebody had forbidden them for a moment.
    pub forbids: u32,
    /// Before how many of 1,000 requests that make a directory in an empty one an outsider deletes that.
    pub sweeps: u32,
    /// After how many of 1,000 requests the process stands still that sent them.
    pub stalls: u32,
    /// How many of 1,000 answers are the last on their connection.
    pub last: u32,
    /// How many of 1,000 lists are not answered, while everything else is.
    pub unread: u32,
    /// For how many session timeouts answers are swallowed, at least, and in how many halves of them faults begin; 0
    /// for half a second, and for one half.
    pub lasts: u32,
    /// How many of 1,000 rests are about as long as a session lasts; 0 for the usual number.
    pub rests: u32,
    /// How many of 1,000 rounds are about all locks at once, if there are several kinds.
    pub multi: u32,
    /// Whether writers step down, unless something else is chosen.
    pub steps_down: bool,
    /// Whether only a few of those who use a read/write lock write.
    pub reads: bool,
    /// Whether callers wait for as long as it takes, and are not cancelled.
    pub patient: bool,
    /// Whether each process has two sessions, and uses them by turns.
    pub twins: bool,
    /// Whether those who want a lock run a body under it where that can be, which lasts as long as others hold.
    pub bodies: bool,
    /// Whether tasks come in by every way that the library has.
    pub doors: bool,
    /// What tasks do instead of asking for the locks of the schedule.
    pub corner: Option<Corner>,
    /// How far away the servers may be, of so many distances; 0 where they are near. Only the rules `FROM_AFAR` are held
    /// where they are far.
    pub far: u32,
    /// How many of 1,000 wakers of callers panic when they have woken who waits.
    pub wakers: u32,
    /// How many of 1,000 read/write locks have a mutex of their name beside them; in whose scope writers step down,
    /// where all have.
    pub mixes: u32,
    /// Whether some of those who use a name in two ways wait in nodes of their own.
    pub alone: bool,
    /// Whether those who use a semaphore in kazoo's layout have one of two identifiers.
    pub identified: bool,
    /// Whether sessions may also last as long as they usually do.
    pub usual_times: bool,
    /// By how many millionths the clocks of processes are wrong at most, in both directions. Those of more
    /// than [`ALLOWED`] are held only to the rules that do not depend on clocks.
    pub drift: u32,
}

/// By how many millionths a clock may be wrong: "a machine whose clock is wrong by more than parts in a
/// thousand should not hold locks" (`docs/guarantees.md`).
pub const ALLOWED: u32 = 1_000;

/// What all locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Of any kind.
    Any,
    /// Mutexes.
    Mutexes,
    /// Read/write locks.
    ReadWrite,
    /// Semaphores.
    Permits,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Anything that happens to networks, servers and processes, and some outsiders.
    Usual,
    /// What outsiders do.
    Outsiders,
    /// Whatever keeps a holder from being heard.
    Silence,
    /// Whatever ends a holder's session.
    Losses,
    /// Servers that differ, refuse, forget sessions, or run out of numbers.
    Odd,
    /// Processes that stand still, for about as long as a lease.
    Pauses,
    /// Networks that let nothing through, or something for a moment.
    Cuts,
    /// A leader that its followers do not hear.
    Deaf,
    /// Directories that go, and begin anew.
    Clears,
    /// Limits of semaphores that are not written yet.
    Blanks,
    /// Nodes that nobody may delete.
    Refusals,
    /// What befalls the nodes of those who hold for long.
    Held,
    /// Sessions that are closed in the middle.
    Closes,
    /// Processes that stand still without a network.
    Lapses,
    /// Networks that deliver late, and all at once, what goes to a server that is then cut off from the others.
    Late,
    /// Processes that stand still while they come to a server, which is then cut off from the others.
    Dozes,
    /// Single connections that fall silent, while others of the same process live on.
    Hush,
    /// The same beside whatever else befalls connections, processes and servers.
    Several,
    /// Single sessions that end, and no other is opened for a while.
    Full,
    /// A server that shows a node which its leader does not know.
    Strays,
    /// Connections that break and are there again, and processes that stand still.
    Doubts,
    /// Connections that break and are there again.
    Breaks,
}

/// The profile of a name, perhaps with smaller figures: `kinds` or `kinds:processes=2,faults=0`.
pub fn named(name: &str) -> Option<Profile> {
    let (name, changes) = name.split_once(':').unwrap_or((name, ""));
    let mut profile = MIX.iter().chain(SMALLEST).find(|profile| profile.name == name)?.clone();
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let (figure, number) = change.split_once('=')?;
        let mut figures = profile.figures();
        let (_, place) = figures.iter_mut().find(|(known, _)| *known == figure)?;
        **place = number.parse().ok()?;
    }
    Some(profile)
}

impl Profile {
    /// What can be made smaller, in the order in which it is tried.
    fn figures(&mut self) -> [(&'static str, &mut u32); 9] {
        [
            ("faults", &mut self.faults),
            ("processes", &mut self.processes),
            ("tasks", &mut self.tasks),
            ("rounds", &mut self.rounds),
            ("locks", &mut self.locks),
            ("strikes", &mut self.strikes),
            ("cancels", &mut self.cancels),
            ("forgets", &mut self.forgets),
            ("meddles", &mut self.meddles),
        ]
    }

    /// Profiles that are smaller by one step, the smallest first.
    pub fn smaller(&self) -> Vec<Profile> {
        let mut smaller = Vec::new();
        for at in 0..self.clone().figures().len() {
            let least = u32::from((1..5).contains(&at));
            let figure = *self.clone().figures()[at].1;
            for less in [least, figure.saturating_sub(1)] {
                let mut profile = self.clone();
                *profile.figures()[at].1 = less;
                if less >= least && less < figure {
                    smaller.push(profile);
                }
            }
        }
        smaller
    }

    /// Its name, as [`named`] reads it.
    pub fn text(&self) -> String {
        let Some(mut usual) = named(self.name) else { return self.name.to_owned() };
        let mut own = self.clone();
        let figures = own.figures().into_iter().zip(usual.figures());
        let changes = figures.filter(|(own, usual)| own.1 != usual.1);
        let changes: Vec<_> = changes.map(|((name, own), _)| format!("{name}={own}")).collect();
        format!("{}:{}", self.name, changes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_profile_is_named() {
        let small = named("kinds:processes=2,faults=0").unwrap();
        assert_eq!((small.processes, small.faults, small.tasks), (2, 0, 2));
        assert_eq!(small.text(), "kinds:faults=0,processes=2");
        assert!(small.smaller().iter().all(|less| less.processes <= 2 && less.locks > 0));
        assert!(named("kinds:processes=many").is_none() && named("nothing").is_none());
    }
}
