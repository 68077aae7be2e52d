//! Tests only: see `tests/`. What the documentation of the attribute shows is compiled here, where
//! the crates are that it speaks of.

/// The code in the page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/attribute.md")]
#[derive(Debug)]
pub struct Page;

/// The code in the guide to metrics.
#[cfg(doctest)]
#[doc = include_str!("../../docs/metrics.md")]
#[derive(Debug)]
pub struct Metrics;

/// The code in the recipes.
#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes.md")]
#[derive(Debug)]
pub struct Recipes;

/// The code in the guide to tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
#[derive(Debug)]
pub struct Testing;

/// The reference of the options, compiled where it can be.
#[cfg(doctest)]
#[doc = include_str!("../../zklock-macros/options.md")]
#[derive(Debug)]
pub struct Options;

/// The example of `lock_name!`.
///
/// ```
#[cfg(doctest)]
#[doc = include_str!("../../zklock-macros/lock_name.txt")]
/// ```
#[derive(Debug)]
pub struct LockName;

/// Each example of the reference, and what the attribute makes of it, compiled.
#[cfg(doctest)]
macro_rules! compiled {
    ($($module:ident $name:literal,)*) => {$(
        #[doc = "```"]
        #[doc = include_str!("../../zklock-macros/expansions/preamble.txt")]
        #[doc = include_str!(concat!("../../zklock-macros/expansions/", $name, ".rs"))]
        #[doc = "```"]
        #[doc = "```"]
        #[doc = include_str!("../../zklock-macros/expansions/preamble.txt")]
        #[doc = include_str!(concat!("../attribute/expansions/", $name, ".rs"))]
        #[doc = "```"]
        pub mod $module {}
    )*};
}

#[cfg(doctest)]
compiled! {
    condition "condition",
    crate_ "crate",
    driver "driver",
    fair "fair",
    future "future",
    hold_at_least "hold_at_least",
    hold_at_most "hold_at_most",
    key "key",
    keys "keys",
    linger "linger",
    label "label",
    lock_delay "lock_delay",
    map_err "map_err",
    mode "mode",
    mode_semaphore "mode_semaphore",
    name "name",
    namespace_expression "namespace_expression",
    on_busy_handler "on_busy_handler",
    on_busy_skip "on_busy_skip",
    on_error "on_error",
    on_lost "on_lost",
    on_revoked "on_revoked",
    options "options",
    pattern "pattern",
    reentrant "reentrant",
    retries "retries",
    session "session",
    stop_at "stop_at",
    sync "sync",
    timeout_expression "timeout_expression",
    try_once "try_once",
    warn_waiting "warn_waiting",
}
