//! Plain values that every room knows: times, tokens, modes, owners, errors, options.

pub mod block_on;
pub mod caller;
pub mod cancel_policy;
pub mod chain;
pub mod clock;
pub mod deadline;
pub mod error;
pub mod error_kind;
pub mod first;
pub mod label;
pub mod machine;
pub mod mode;
pub(crate) mod on_drop;
pub mod options;
pub mod owner;
pub mod pattern;
pub mod policy;
pub mod session_state;
pub mod settings;
pub mod times;
pub mod token;
pub mod unharmed;
pub mod until;
