//! The processes that belong to the command, as Linux shows them.
//!
//! The command has a process group, but what it starts may have another one: `timeout` leaves the group, and so does each job
//! of a shell with `set -m`. All of them stay in the session of `zklock`, which only daemons leave, on purpose. Orphans come to
//! `zklock`, so they are below it as long as it is there. When it was killed, they are others' children: then a variable in
//! their environment shows where they come from. Some overwrite their environment, to show a title in its place (redis, nginx,
//! PostgreSQL), and that of others may not be read: so one that has the variable tells of its whole group, and of what is below.
//!
//! Where nothing is shown (another system, or the `/proc` of another namespace of processes), the group is all that is known.
//! On Linux `zklock run` needs `/proc`: what it starts of itself is in `/proc/self`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::iter::successors;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getsid};

use super::guardian;

/// The variable that all of them inherit.
pub(super) const VARIABLE: &str = "ZKLOCK_RUN";

/// How often a family that was killed is looked at, and how long in between: each look finds what was just being started.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

/// After how many looks that find nothing nothing is left. A process that is about to become another program shows no
/// environment until that is loaded.
const EMPTY_LOOKS: u32 = 3;

/// After how many looks that find nothing nothing is left of a command that ended. Processes are read one by one, so a look
/// misses what one that ends meanwhile has started, if its number is one that was passed already.
const LOOKS_AT_NOTHING: u32 = 2;

/// The command, and what it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The process of `zklock`.
    zklock: i32,
    /// The group of the command, and its process.
    group: i32,
    /// When the command began, in the system's units since its start.
    begun: u64,
    /// The groups of the children that `zklock` has from before, of what is below them, and its own; empty if there are none.
    /// Who becomes `zklock` by `exec` may have some, and what a shell writes `>(…)` for is one. What they leave behind comes
    /// to `zklock`, too, and may differ by its group alone from what the command leaves behind.
    strangers: BTreeSet<i32>,
}

/// What is left of a family.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Whether something of its group lives.
    pub(super) group: bool,
    /// What lives outside of the group, each after what it is below: nobody is to see the end of what it started.
    pub(super) others: Vec<Pid>,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        !self.group && self.others.is_empty()
    }
}

impl Family {
    /// That of a command which has been started, and not been waited for.
    pub(super) fn of(zklock: Pid, command: Pid) -> Self {
        let (zklock, group) = (zklock.as_raw(), command.as_raw());
        let begun = Process::of(group).map_or(0, |command| command.begun);
        Family { zklock, group, begun, strangers: strangers(&whole(), zklock, group) }
    }

    pub(super) fn group(&self) -> Pid {
        Pid::from_raw(self.group)
    }

    /// The value of the variable, which no other family has.
    pub(super) fn mark(&self) -> String {
        format!("{}-{}", self.zklock, self.begun)
    }

    /// Whether a process has the variable, as far as this user may know.
    fn has_marked(&self, one: &Process) -> bool {
        if one.session != session() {
            return false;
        }
        let entry = format!("{VARIABLE}={}", self.mark());
        let entries = fs::read(format!("/proc/{}/environ", one.pid)).unwrap_or_default();
        entries.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
    }

    /// As another process is told.
    pub(super) fn words(&self) -> String {
        let strangers: String = self.strangers.iter().map(|group| format!(" {group}")).collect();
        format!("{} {} {}{strangers}", self.zklock, self.group, self.begun)
    }

    pub(super) fn of_words<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<Self> {
        let (zklock, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let begun = words.next()?.parse().ok()?;
        let strangers = words.map(|group| group.parse().ok()).collect::<Option<_>>()?;
        Some(Family { zklock, group, begun, strangers })
    }

    /// Whether somebody has the group, and be it one who has ended and whom nobody waits for.
    pub(super) fn has_group(&self) -> bool {
        killpg(self.group(), None) != Err(Errno::ESRCH)
    }

    /// Looks what is left while `zklock` is there.
    pub(super) fn left(&self) -> Left {
        // The group first, so that one whose last process ends meanwhile is looked at again.
        self.left_in(|| (self.has_group(), whole()))
    }

    /// What one of a few looks shows: whether somebody has the group, and all processes.
    fn left_in(&self, mut look: impl FnMut() -> (bool, HashMap<i32, Process>)) -> Left {
        let mut looks = (0..LOOKS_AT_NOTHING).map(|_| {
            let (has_group, all) = look();
            self.left_of(has_group, &all, &HashSet::new())
        });
        looks.find(|left| !left.is_empty()).unwrap_or_default()
    }

    /// Kills what is left. Fails where some of it may not be killed.
    pub(super) fn kill(&self, left: &Left) -> nix::Result<()> {
        // Of a group that has ended, the number may be another's by now.
        let group = left.group.then(|| killpg(self.group(), Signal::SIGKILL));
        let others = left.others.iter().map(|one| kill(*one, Signal::SIGKILL));
        let all: Vec<_> = group.into_iter().chain(others).collect();
        if all.contains(&Err(Errno::EPERM)) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Kills all of it, also when `zklock` was killed.
    pub(super) fn end(&self) {
        // First without a look, which takes its time.
        let mut left = Left { group: true, others: Vec::new() };
        // Whoever has the variable may be killed first: what is with it is known from then on.
        let mut groups = HashSet::new();
        let mut empty = 0;
        for _ in 0..LOOKS {
            _ = self.kill(&left);
            let has_group = self.has_group();
            let all = whole();
            let marked = all.values().filter(|one| self.has_marked(one));
            groups.extend(marked.map(|one| one.group));
            left = self.left_of(has_group, &all, &groups);
            empty = if left.is_empty() { empty + 1 } else { 0 };
            if empty == EMPTY_LOOKS {
                return;
            }
            sleep(BETWEEN);
        }
    }

    /// What is left of the group, and of others in the session: what is below `zklock`, or with a group that belongs to it.
    fn left_of(&self, has_group: bool, all: &HashMap<i32, Process>, groups: &HashSet<i32>) -> Left {
        let session = session();
        let others = all.values().filter(|one| {
            let is_other = one.session == session && one.group != self.group && !one.ended;
            is_other && !one.is_guardian && self.has(one, all, groups)
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by_cached_key(|one| depth(one, all));
        let others = others.into_iter().map(|one| Pid::from_raw(one.pid)).collect();
        let mut its = all.values().filter(|one| one.group == self.group).peekable();
        // Where the first process is not shown, those of other users are hidden: somebody may live whom nobody sees.
        let lives = !all.contains_key(&1) || its.peek().is_none() || its.any(|one| !one.ended);
        Left { group: has_group && lives, others }
    }

    /// Whether a process is in one of the groups or below, or below `zklock` and not by one of its children from before. What
    /// these have left behind in a group of their own is taken for the command's if they have made that group later.
    fn has(&self, one: &Process, all: &HashMap<i32, Process>, groups: &HashSet<i32>) -> bool {
        let mut at = one;
        // What is read one by one may show a circle.
        for _ in 0..all.len() {
            if groups.contains(&at.group) {
                return true;
            }
            if at.parent == self.zklock {
                let is_its = [at.pid, at.group].contains(&self.group);
                let is_strangers = at.begun < self.begun || self.strangers.contains(&at.group);
                return is_its || !is_strangers || self.has_marked(at);
            }
            let Some(parent) = all.get(&at.parent) else { return false };
            at = parent;
        }
        false
    }
}

/// The groups of the children of `zklock` but the command, of what is below them, and its own; nothing if there are none.
fn strangers(all: &HashMap<i32, Process>, zklock: i32, command: i32) -> BTreeSet<i32> {
    let is_child = |one: &Process| one.parent == zklock && one.pid != command;
    let below = all.values().filter(|one| !one.ended && line(one, all).any(is_child));
    let mut groups: BTreeSet<_> = below.map(|one| one.group).collect();
    if !groups.is_empty() {
        groups.extend(all.get(&zklock).map(|one| one.group));
    }
    groups
}

/// How many processes are above one.
fn depth(one: &Process, all: &HashMap<i32, Process>) -> usize {
    line(one, all).count()
}

/// A process, its parent, and so on.
fn line<'p>(one: &'p Process, all: &'p HashMap<i32, Process>) -> impl Iterator<Item = &'p Process> {
    // What is read one by one may show a circle.
    successors(Some(one), |one| all.get(&one.parent)).take(all.len())
}

/// The session of this process, and of all that belong to the command.
fn session() -> i32 {
    getsid(None).map_or(-1, Pid::as_raw)
}

/// What the system shows of a process.
#[derive(Debug)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    begun: u64,
    /// Whether it only waits for its parent to hear of its end.
    ended: bool,
    is_guardian: bool,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name may contain anything.
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        // The first one is the third field of proc_pid_stat(5).
        let words: Vec<_> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| words.get(index)?.parse::<i64>().ok();
        let small = |index: usize| i32::try_from(number(index)?).ok();
        // While other threads go on, the end of the first one is not that of the process.
        let ended = matches!(*words.first()?, "Z" | "X") && number(17)? <= 1;
        Some(Process {
            pid,
            parent: small(1)?,
            group: small(2)?,
            session: small(3)?,
            begun: u64::try_from(number(19)?).ok()?,
            ended,
            is_guardian: name == guardian::NAME,
        })
    }
}

/// All processes that are shown.
fn all() -> HashMap<i32, Process> {
    // In a namespace of processes it may show the numbers of another one.
    let itself = fs::read_link("/proc/self").ok();
    let is_own = itself.is_some_and(|own| own == Path::new(&std::process::id().to_string()));
    let shown = fs::read_dir("/proc").ok().filter(|_| is_own).into_iter().flatten().flatten();
    let numbers = shown.filter_map(|one| one.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| Some((number, Process::of(number)?))).collect()
}

/// All processes, with the parent of each. Where a parent ended after its child was read, the child has another one by now.
fn whole() -> HashMap<i32, Process> {
    let mut shown = all();
    for _ in 0..3 {
        let is_torn = |one: &Process| one.parent != 0 && !shown.contains_key(&one.parent);
        let torn: Vec<_> = shown.values().filter(|one| is_torn(one)).map(|one| one.pid).collect();
        if torn.is_empty() {
            break;
        }
        for pid in torn {
            match Process::of(pid) {
                Some(process) => shown.insert(pid, process),
                None => shown.remove(&pid),
            };
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_that_has_ended_is_not_killed() {
        let mut anothers = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = i32::try_from(anothers.id()).unwrap();
        let family = Family { zklock: 0, group, begun: 0, strangers: BTreeSet::new() };
        let killed = family.kill(&Left { group: false, others: Vec::new() });
        sleep(BETWEEN);
        let lives = anothers.try_wait().unwrap().is_none();
        _ = killpg(family.group(), Signal::SIGKILL);
        anothers.wait().unwrap();
        assert!(lives && killed.is_ok());
    }

    fn process((pid, parent): (i32, i32), ended: bool) -> (i32, Process) {
        let (group, session) = (pid, session());
        (pid, Process { pid, parent, group, session, begun: 0, ended, is_guardian: false })
    }

    /// A shell that waits for one of the others would go on with its next line.
    #[test]
    fn what_is_below_another_one_is_killed_after_it() {
        let family = Family { zklock: 7, group: 8, begun: 0, strangers: BTreeSet::new() };
        let mut chain = vec![7, 8];
        chain.extend((20..40).rev());
        let seen = chain.windows(2).map(|pair| process((pair[1], pair[0]), false)).collect();
        let left = family.left_of(true, &seen, &HashSet::new());
        assert_eq!(left.others, (20..40).rev().map(Pid::from_raw).collect::<Vec<_>>());
    }

    /// Both are children of `zklock` by now, and neither shows the variable.
    #[test]
    fn what_the_command_leaves_behind_differs_by_its_group_from_what_others_do() {
        let (zklock, own) = (process((7, 1), false), process((8, 7), false));
        let mut before = HashMap::from([zklock, own, process((9, 7), false)]);
        let strangers = strangers(&before, 7, 8);
        assert_eq!(strangers, BTreeSet::from([7, 9]));
        let family = Family { zklock: 7, group: 8, begun: 0, strangers };
        assert_eq!(Family::of_words(family.words().split(' ')).as_ref(), Some(&family));
        let (left, mut others) = (process((30, 7), false), process((31, 7), false));
        others.1.group = 9;
        before.extend([left, others]);
        let left = family.left_of(true, &before, &HashSet::new());
        assert_eq!(left.others, [Pid::from_raw(30)]);
    }

    /// The numbers of processes have begun anew: what was started last has a small one.
    #[test]
    fn what_one_look_has_missed_is_left() {
        let family = Family { zklock: 7, group: 8, begun: 0, strangers: BTreeSet::new() };
        // Of the group, there is only one whose end nobody hears of.
        let seen = |other: Option<(i32, Process)>| {
            let all = [process((1, 0), false), process((7, 1), false), process((8, 7), true)];
            (true, all.into_iter().chain(other).collect())
        };
        let left = |second: Option<(i32, Process)>| {
            let mut looks = [None, second].into_iter();
            family.left_in(|| seen(looks.next().unwrap()))
        };
        assert_eq!(left(Some(process((5, 7), false))).others, [Pid::from_raw(5)]);
        let mut its = process((5, 7), false);
        its.1.group = 8;
        assert!(left(Some(its)).group);
        assert!(left(None).is_empty());
    }

    /// As where `/proc` has the option `hidepid`.
    #[test]
    fn where_processes_are_hidden_one_that_has_ended_is_not_the_end_of_its_group() {
        let family = Family { zklock: 7, group: 8, begun: 0, strangers: BTreeSet::new() };
        let seen = HashMap::from([process((8, 7), true)]);
        assert!(family.left_of(true, &seen, &HashSet::new()).group);
        let seen = HashMap::from([process((8, 7), true), process((1, 7), false)]);
        assert!(!family.left_of(true, &seen, &HashSet::new()).group);
    }
}
