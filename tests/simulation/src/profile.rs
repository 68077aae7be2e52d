//! What a schedule is about.

use crate::workload::Family;

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
    /// How many of 1,000 holders ask again, inside.
    pub nests: u32,
    /// How many of 1,000 rounds begin with a lock that nobody else wants.
    pub passes: u32,
    /// Whether callers wait about as long as an answer takes.
    pub hasty: bool,
    /// Whether tasks also do what few do.
    pub rare: bool,
    /// Whether all locks linger.
    pub lingers: bool,
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
}

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
    /// Nodes that nobody may delete.
    Refusals,
    /// What befalls the nodes of those who hold for long.
    Held,
    /// Sessions that are closed in the middle.
    Closes,
}

const GENERAL: Profile = Profile {
    name: "general",
    processes: 3,
    tasks: 2,
    rounds: 3,
    locks: 2,
    servers: 1,
    kinds: false,
    faults: 3,
    strikes: 20,
    cancels: 150,
    traffic: false,
    shape: Shape::Any,
    confused: 250,
    nests: 200,
    passes: 20,
    hasty: false,
    rare: false,
    lingers: false,
    turns: false,
    layouts: 250,
    marks: false,
    limits: false,
    only: None,
    kinds_of_faults: Faults::Usual,
    long: 100,
    forgets: 0,
    unheard: 0,
    meddles: 0,
};

/// The profiles of the usual mix.
pub const MIX: &[Profile] = &[
    GENERAL,
    Profile { name: "kinds", kinds: true, locks: 3, ..GENERAL },
    Profile { name: "calm", kinds: true, locks: 3, faults: 0, strikes: 0, ..GENERAL },
    Profile {
        name: "outsiders",
        kinds: true,
        kinds_of_faults: Faults::Outsiders,
        traffic: true,
        strikes: 0,
        ..GENERAL
    },
    Profile { name: "quorum", kinds: true, servers: 3, ..GENERAL },
    Profile { name: "busy", tasks: 4, locks: 1, traffic: true, ..GENERAL },
    Profile {
        name: "meddlers",
        kinds: true,
        kinds_of_faults: Faults::Outsiders,
        strikes: 0,
        meddles: 30,
        ..GENERAL
    },
    Profile {
        name: "silence",
        servers: 3,
        tasks: 3,
        locks: 1,
        kinds_of_faults: Faults::Silence,
        strikes: 0,
        long: 500,
        faults: 5,
        ..GENERAL
    },
    Profile {
        name: "unheard",
        kinds: true,
        kinds_of_faults: Faults::Outsiders,
        strikes: 0,
        forgets: 30,
        meddles: 20,
        long: 300,
        ..GENERAL
    },
    Profile {
        name: "marks",
        locks: 1,
        marks: true,
        kinds_of_faults: Faults::Losses,
        strikes: 5,
        long: 300,
        faults: 6,
        ..GENERAL
    },
    Profile {
        name: "permits",
        kinds: true,
        shape: Shape::Permits,
        locks: 1,
        kinds_of_faults: Faults::Outsiders,
        strikes: 5,
        meddles: 5,
        ..GENERAL
    },
    Profile {
        name: "crowd",
        kinds: true,
        shape: Shape::Permits,
        locks: 1,
        tasks: 4,
        faults: 0,
        strikes: 0,
        cancels: 50,
        ..GENERAL
    },
    Profile { name: "layouts", kinds: true, layouts: 1_000, forgets: 10, cancels: 300, ..GENERAL },
    Profile { name: "forgetful", kinds: true, faults: 1, strikes: 0, forgets: 30, ..GENERAL },
    Profile {
        name: "odd",
        kinds: true,
        servers: 3,
        kinds_of_faults: Faults::Odd,
        strikes: 10,
        ..GENERAL
    },
    Profile { name: "limits", kinds: true, limits: true, long: 300, ..GENERAL },
    Profile {
        name: "readers",
        kinds: true,
        shape: Shape::ReadWrite,
        locks: 1,
        tasks: 4,
        kinds_of_faults: Faults::Pauses,
        strikes: 0,
        nests: 500,
        long: 600,
        ..GENERAL
    },
    Profile {
        name: "two-kinds",
        kinds: true,
        shape: Shape::Permits,
        confused: 1_000,
        locks: 1,
        tasks: 2,
        faults: 0,
        strikes: 0,
        cancels: 400,
        rounds: 5,
        nests: 500,
        processes: 2,
        ..GENERAL
    },
    Profile {
        name: "hasty",
        kinds: true,
        hasty: true,
        layouts: 500,
        rounds: 8,
        faults: 0,
        strikes: 0,
        cancels: 0,
        ..GENERAL
    },
    Profile {
        name: "recurring",
        kinds: true,
        shape: Shape::Mutexes,
        layouts: 1_000,
        locks: 1,
        kinds_of_faults: Faults::Clears,
        faults: 10,
        strikes: 0,
        forgets: 60,
        rare: true,
        cancels: 400,
        ..GENERAL
    },
    Profile {
        name: "refusals",
        kinds: true,
        kinds_of_faults: Faults::Refusals,
        strikes: 0,
        long: 300,
        rare: true,
        ..GENERAL
    },
    Profile {
        name: "holders",
        kinds: true,
        kinds_of_faults: Faults::Held,
        faults: 6,
        strikes: 0,
        long: 700,
        unheard: 300,
        nests: 500,
        ..GENERAL
    },
    Profile {
        name: "deaf",
        servers: 3,
        kinds_of_faults: Faults::Deaf,
        strikes: 0,
        long: 300,
        ..GENERAL
    },
    Profile {
        name: "cuts",
        tasks: 1,
        kinds_of_faults: Faults::Cuts,
        faults: 6,
        strikes: 0,
        long: 500,
        ..GENERAL
    },
    Profile {
        name: "lingering",
        kinds: true,
        shape: Shape::Mutexes,
        layouts: 0,
        lingers: true,
        processes: 1,
        tasks: 1,
        locks: 4,
        faults: 0,
        strikes: 0,
        forgets: 20,
        long: 700,
        rounds: 6,
        ..GENERAL
    },
    Profile {
        name: "turns",
        kinds: true,
        shape: Shape::Permits,
        confused: 0,
        turns: true,
        locks: 1,
        tasks: 4,
        rounds: 8,
        faults: 0,
        strikes: 0,
        cancels: 20,
        ..GENERAL
    },
    Profile { name: "one-answer", kinds: true, faults: 0, strikes: 0, forgets: 5, ..GENERAL },
    Profile { name: "rare", kinds: true, rare: true, faults: 0, strikes: 0, nests: 400, ..GENERAL },
    Profile {
        name: "closing",
        kinds: true,
        kinds_of_faults: Faults::Closes,
        strikes: 0,
        cancels: 400,
        passes: 300,
        ..GENERAL
    },
];

const SMALL: Profile = Profile {
    name: "mutex",
    processes: 2,
    tasks: 1,
    rounds: 1,
    locks: 1,
    faults: 0,
    only: Some(Family::Mutex),
    ..GENERAL
};

/// The profiles that are small enough for all schedules with few deviations.
pub const SMALLEST: &[Profile] = &[
    SMALL,
    Profile { name: "read-write", only: Some(Family::ReadWrite), ..SMALL },
    Profile { name: "semaphore", only: Some(Family::Permits(2)), ..SMALL },
    Profile { name: "handoff", tasks: 2, ..SMALL },
    Profile { name: "three", processes: 3, ..SMALL },
];

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
