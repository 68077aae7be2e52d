//! The locks on real ZooKeeper servers: what only a server, a process or a network can break.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../examples/agent.rs"]
mod agent;
mod agent_ends;
mod agent_waits;
mod anew;
mod auth;
mod bed;
mod between_callers;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../examples/built.rs"]
mod built;
mod busy;
mod busy_day;
mod by_default;
mod chaos;
mod checklist;
mod client_ends;
mod closing;
mod connecting;
mod cost;
mod crosswise;
mod cuts;
mod expiry;
mod fair;
mod fenced;
mod frozen;
mod handed_on;
mod hold;
mod in_time;
mod inside;
mod kept;
mod killed;
mod kinds;
mod lanes;
mod late_answers;
mod let_in;
mod letting_go;
mod looking;
mod lost;
mod lost_replies;
mod many_at_once;
mod meddled;
mod multi_in_time;
mod mutex;
mod names;
mod noticed;
mod outside;
mod panics;
mod permits_deleted;
mod permits_in_silence;
mod process;
mod queue;
mod queueing;
mod quorum;
mod read_again;
mod reasons;
mod removed;
mod restart;
mod silence;
mod stepping_down;
mod stop_at;
mod swallowed;
mod traffic;
mod tries;
mod two_kinds;
mod two_ticks;
mod unused;
