//! Sessions: generations, the lease clock, the releaser.

pub mod answered;
pub mod builder;
pub mod clearing;
pub mod generation;
pub mod handle;
pub mod heads;
pub mod keeper;
pub mod lane;
pub mod lanes;
pub mod lease_clock;
pub mod releaser;
pub mod shelf;
pub mod spawner;
pub mod standing;
pub mod stray;
pub mod timing;
pub mod unused;
pub mod watch_budget;

pub use builder::SessionBuilder;
pub use handle::{Session, States};
pub use shelf::Held;
pub use timing::Timing;
