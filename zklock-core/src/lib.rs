//! The machinery of zklock.

pub mod backend;
pub mod clock;
pub mod deadline;
pub mod error;
pub mod mode;
pub mod owner;
pub mod session_state;
pub mod token;

pub mod path;

pub mod contender;
pub mod coordinator;
pub mod key;
pub mod policy;

pub mod observer;
pub mod options;
pub mod recipe;

pub mod session;

pub mod acquire;
pub mod lease;
pub mod who;

pub mod local;

pub mod context;
pub mod guard;

pub mod lock;
