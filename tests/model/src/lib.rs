//! Nothing: the crate is its tests. It stands apart because the scheduler it uses is heavy.
