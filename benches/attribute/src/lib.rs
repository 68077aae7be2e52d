//! See `benches/attribute.rs` (what a call costs) and `src/bin/compile_time.rs` (what compiling
//! costs), and `README.md` for how to run them.
