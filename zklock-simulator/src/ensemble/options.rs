//! How an ensemble is set up, and how its network behaves.

/// How an ensemble is set up. Times are in microseconds, as in its world.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many servers there are.
    pub servers: usize,
    /// The servers' unit of time.
    pub tick: u64,
    /// The shortest session timeout that a client can get.
    pub min_timeout: u64,
    /// The longest session timeout that a client can get.
    pub max_timeout: u64,
    /// After how many ticks of silence a follower and its leader part.
    pub sync_limit: u64,
    /// How often empty containers are looked for.
    pub reap_every: u64,
    /// After how long a container goes that was never used.
    pub reap_unused: Option<u64>,
    /// How long servers take to find a leader.
    pub election: u64,
    /// How far each server's wall clock is ahead, in milliseconds; nothing for those not named.
    pub clocks: Vec<i64>,
    /// Whether a session that is over is replaced without a word.
    pub replaces: bool,
    /// How the network behaves.
    pub weather: Weather,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            servers: 1,
            tick: 200_000,
            min_timeout: 400_000,
            max_timeout: 60_000_000,
            sync_limit: 10,
            reap_every: 60_000_000,
            reap_unused: None,
            election: 300_000,
            clocks: Vec::new(),
            replaces: false,
            weather: Weather::default(),
        }
    }
}

/// How the network behaves. What is not 0 costs a choice for every message.
#[derive(Clone, Debug)]
pub struct Weather {
    /// How long a message takes at least, in microseconds.
    pub latency: u64,
    /// How many steps longer it may take, all as likely.
    pub steps: u32,
    /// How long a step is, in microseconds.
    pub step: u64,
    /// How many of 1,000 messages take much longer.
    pub slow: u32,
    /// How many of 1,000 requests are struck by a fault.
    pub strikes: u32,
    /// The unit of how late what is struck arrives, and for how long a connection is silent then, in microseconds; nothing
    /// for a tick.
    pub unit: Option<u64>,
    /// How many of 1,000 notifications are swallowed.
    pub swallowed: u32,
    /// How many of 1,000 answers are swallowed.
    pub forgets: u32,
    /// How many of 1,000 answers to those who list a directory are swallowed.
    pub unread: u32,
    /// How many of 1,000 requests an outsider interferes with.
    pub meddles: u32,
    /// After how many of 1,000 requests an outsider deletes a node near the one that it is about, whose name recurs,
    /// and another program takes that name for a while.
    pub retakes: u32,
    /// How many of 1,000 reads are refused, as if somebody had forbidden them for a moment.
    pub forbids: u32,
    /// Before how many of 1,000 requests that make a directory in an empty one an outsider deletes that.
    pub sweeps: u32,
    /// How many of 1,000 answers are the last on their connection, which breaks just behind them.
    pub last: u32,
    /// How many of 1,000 requests are followed by a standstill of who sent them: see
    /// [`Ensemble::take_stalled`](super::Ensemble::take_stalled).
    pub stalls: u32,
    /// How long followers take at most to apply what was committed, in steps.
    pub lag: u32,
    /// How long a disk takes at most, in steps.
    pub disk: u32,
    /// Where it is set, at most so many requests are struck, and each choice of a fault is equal.
    pub budget: Option<u32>,
}

impl Default for Weather {
    fn default() -> Self {
        Weather {
            latency: 200,
            steps: 0,
            step: 150,
            slow: 0,
            strikes: 0,
            unit: None,
            swallowed: 0,
            forgets: 0,
            unread: 0,
            meddles: 0,
            retakes: 0,
            forbids: 0,
            sweeps: 0,
            last: 0,
            stalls: 0,
            lag: 0,
            disk: 0,
            budget: None,
        }
    }
}
