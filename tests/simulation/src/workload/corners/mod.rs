//! What is not done with the locks of a schedule: each corner is a world of its own, with rules of its own.

mod above;
mod below;
mod few;
mod heavy;
mod kazoo;
mod litter;
mod once;
mod parts;
mod shown;
mod together;
mod told;

use super::task::Task;

pub use together::Together;

/// A world of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Sessions that hold as much as servers bear.
    Heavy,
    /// Kazoo's semaphore, which programs in Python use as well, and whose directory goes when it is empty.
    Kazoo,
    /// Locks with two holders, some of whom let them linger.
    Few,
    /// Locks in whose directories others have theirs, which look like contenders.
    Below,
    /// A semaphore that some take for a mutex, and in whose directory nodes lie that are nobody's.
    Litter,
    /// Nodes above the locks that nobody may change, nodes of one's own that say what they say, limits that nobody may read.
    Above,
    /// Sessions of a process that see different parts of the tree.
    Parts,
    /// What is shown of those who hold and of those who wait.
    Shown,
    /// Those who ask once for permits, beside others of their process.
    Once,
    /// What those are told who ask, follow, hold or give up.
    Told,
    /// Sessions that watch more than a client can set again.
    Watches,
}

impl Task {
    pub(super) async fn go_into(&self, corner: Corner) {
        match corner {
            Corner::Heavy => self.hold_much().await,
            Corner::Kazoo => self.share_with_kazoo().await,
            Corner::Few => self.share_with_few().await,
            Corner::Below => self.have_others_below().await,
            Corner::Litter => self.find_others_among_litter().await,
            Corner::Above => self.obey_those_above().await,
            Corner::Parts => self.see_a_part().await,
            Corner::Shown => self.see_what_is_shown().await,
            Corner::Once => self.ask_once().await,
            Corner::Told => self.is_told().await,
            Corner::Watches => self.watch_much().await,
        }
    }
}
