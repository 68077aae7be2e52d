//! The examples, run as people run them.

mod agent;
mod built;
mod lock_agent;
mod lock_agent_ends;
mod order_numbers;
mod template;
