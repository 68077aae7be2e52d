//! What is varied.

use crate::workload::{Shape, shape};

/// A line of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The side.
    pub(crate) name: &'static str,
    /// Its name in the picture.
    pub(crate) label: &'static str,
    /// Up to which point it is measured.
    pub(crate) most: usize,
}

/// One picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// The name of its file.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What is counted along it.
    pub(crate) unit: &'static str,
    pub(crate) points: &'static [usize],
    pub(crate) sides: &'static [Line],
    shape: fn(usize) -> Shape,
}

impl Axis {
    /// The workload at a point.
    pub(crate) fn shape(&self, n: usize) -> Shape {
        (self.shape)(n)
    }

    /// Whether a short sweep has the point.
    pub(crate) fn is_quick(&self, n: usize) -> bool {
        [1, 4, 10, 100].contains(&n)
    }
}

const fn line(name: &'static str, label: &'static str, most: usize) -> Line {
    Line { name, label, most }
}

/// A thread of Python or a node in the queue for each is too much beyond.
const MANY: usize = 100;

const ALL: usize = usize::MAX;

const UP_TO_1000: &[usize] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// What is measured in one process: the locks, and a bound of what is possible.
const fn beside(bound: Line) -> [Line; 6] {
    [
        line("zklock", "zklock", ALL),
        line("curator", "Curator", ALL),
        line("kazoo", "kazoo", MANY),
        line("client-lock", "Client::lock", ALL),
        line("redis", "Redis, no fsync", ALL),
        bound,
    ]
}

/// All pictures.
pub(crate) const AXES: [Axis; 3] = [
    Axis {
        name: "tasks",
        title: "One process, one lock, more and more tasks",
        unit: "tasks",
        points: UP_TO_1000,
        sides: &beside(line("tokio-mutex", "tokio mutex (no ZooKeeper)", ALL)),
        shape: |n| shape(1, n, 1),
    },
    Axis {
        name: "processes",
        title: "One lock, more and more processes of ten tasks each",
        unit: "processes",
        points: &[1, 2, 4, 8, 16],
        sides: &[
            line("zklock-processes", "zklock", ALL),
            line("curator", "Curator", ALL),
            line("kazoo", "kazoo", ALL),
            line("client-lock", "Client::lock", ALL),
            line("redis", "Redis, no fsync", ALL),
        ],
        shape: |n| shape(n, 10, 1),
    },
    Axis {
        name: "locks",
        title: "One process, more and more locks with a task each",
        unit: "locks",
        points: UP_TO_1000,
        sides: &beside(line("create|list+delete", "bare create ‖ list + delete", ALL)),
        shape: |n| shape(1, n, n),
    },
];
