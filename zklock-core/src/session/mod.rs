//! Sessions: connections, their generations, the lease clock, the heartbeat, the releaser.

#[cfg(test)]
mod broken_log;
pub mod builder;
pub mod environment;
pub mod generation;
pub mod handle;
pub mod health;
pub mod heard;
pub mod heartbeat;
pub mod keeper;
pub mod lane;
pub mod lanes;
pub mod late_answers;
pub mod lease_clock;
pub mod local_queues;
pub mod node_budget;
pub mod own_watch;
pub mod registry;
pub mod releaser;
pub mod reply_timeout;
pub mod runtime;
pub mod slow;
pub mod spawner;
pub mod standstill;
pub mod stuck;
pub mod timing;
pub mod unused;
pub mod watch_budget;

pub use builder::SessionBuilder;
pub use handle::{Session, States, ZooKeeperSession};
pub use local_queues::LocalContender;
pub use registry::{Installed, SessionRegistry, init};
pub use timing::Timing;
