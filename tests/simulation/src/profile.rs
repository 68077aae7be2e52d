//! What a schedule is about.

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
    /// Whether the faults are those of outsiders alone.
    pub outsiders: bool,
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
    outsiders: false,
};

/// The profiles of the usual mix.
pub const MIX: &[Profile] = &[
    GENERAL,
    Profile { name: "kinds", kinds: true, locks: 3, ..GENERAL },
    Profile { name: "calm", kinds: true, locks: 3, faults: 0, strikes: 0, ..GENERAL },
    Profile {
        name: "outsiders",
        kinds: true,
        outsiders: true,
        traffic: true,
        strikes: 0,
        ..GENERAL
    },
    Profile { name: "quorum", kinds: true, servers: 3, ..GENERAL },
    Profile { name: "busy", tasks: 4, locks: 1, traffic: true, ..GENERAL },
];

/// The profile of a name.
pub fn named(name: &str) -> Option<&'static Profile> {
    MIX.iter().find(|profile| profile.name == name)
}
