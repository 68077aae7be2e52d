//! The locks on the embedded coordinator: every promise that needs no server, most of them under
//! paused time.

mod attribute;
mod blocking;
mod cancel;
mod deadlines;
mod faults;
mod linger;
mod mutex;
mod reentrancy;
mod support;
mod template;
