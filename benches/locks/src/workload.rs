//! The workloads.

/// How many of what work on how many locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Connections to the server, or processes.
    pub(crate) sessions: usize,
    /// Tasks or threads of each.
    pub(crate) tasks: usize,
    /// Locks: the n-th task of a session uses lock n modulo this.
    pub(crate) locks: usize,
}

/// One line of the table's headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workload<'a> {
    /// For `--workload`.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) title: &'static str,
    pub(crate) shape: Shape,
    /// The sides that run it, in the order of the table.
    pub(crate) sides: &'a [&'static str],
}

pub(crate) const fn shape(sessions: usize, tasks: usize, locks: usize) -> Shape {
    Shape { sessions, tasks, locks }
}

/// All workloads.
pub(crate) const WORKLOADS: [Workload<'static>; 6] = [
    Workload {
        name: "single",
        title: "1 session × 1 task",
        shape: shape(1, 1, 1),
        sides: &[
            "zklock",
            "zklock-drop",
            "zklock-linger",
            "create+delete",
            "create|list+delete",
            "client-lock",
            "curator",
            "kazoo",
            "redis",
            "redis-fsync",
        ],
    },
    Workload {
        name: "tasks",
        title: "1 process × 10 tasks, one lock",
        shape: shape(1, 10, 1),
        sides: &[
            "zklock",
            "zklock-drop",
            "zklock-tries",
            "tokio-mutex",
            "client-lock",
            "curator",
            "kazoo",
            "redis",
            "redis-fsync",
        ],
    },
    Workload {
        name: "threads",
        title: "1 process × 10 blocking threads, one lock",
        shape: shape(1, 10, 1),
        sides: &["zklock-blocking", "curator", "kazoo"],
    },
    Workload {
        name: "sessions",
        title: "10 sessions × 1 task, one lock",
        shape: shape(10, 1, 1),
        sides: &[
            "zklock",
            "zklock-drop",
            "zklock-processes",
            "notify",
            "client-lock",
            "curator",
            "kazoo",
            "redis",
        ],
    },
    Workload {
        name: "fleet",
        title: "10 processes × 10 tasks, one lock",
        shape: shape(10, 10, 1),
        sides: &["zklock-processes", "client-lock", "curator", "redis"],
    },
    Workload {
        name: "many",
        title: "1 process × 100 tasks on 100 locks",
        shape: shape(1, 100, 100),
        sides: &[
            "zklock",
            "zklock-drop",
            "create+delete",
            "create|list+delete",
            "create|list+delete-4",
            "client-lock",
            "curator",
            "kazoo",
            "redis",
        ],
    },
];
