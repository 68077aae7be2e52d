//! What must hold in every schedule, each rule with the sentence of the documentation that it is.

mod ledger;

pub use ledger::{Entry, Holding, Ledger, Violation};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What the documentation says.
    pub says: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal, $says:literal;)*) => {
        $($(#[$doc])* pub const $rule: Rule = Rule { name: $name, says: $says };)*

        /// All of them.
        pub const ALL: &[Rule] = &[$($rule),*];
    };
}

rules! {
    /// Never more valid holders than the lock has room for.
    EXCLUSION = "exclusion", "The function runs only while its caller holds the lock in the whole fleet.";
    /// A guard is not valid while its node is gone because its session ended by itself.
    IN_TIME = "in-time", "When nothing is heard from ZooKeeper, work stops before another process can get the lock.";
    /// A guard whose node somebody else took away says so soon.
    TOLD = "told", "A deletion from outside is noticed within a sixth of the session timeout, not at once.";
    /// A guard that is handed out is valid.
    VALID = "valid-when-granted", "`is_valid()`, every grant and every handoff read the clock.";
    /// A guard that is lost stays so.
    FOR_GOOD = "lost-for-good", "A lost guard stays lost, whatever comes back.";
    /// `lost()` resolves when the guard is no longer valid.
    LOST = "lost-resolves", "`lost()` resolves, and an async body is dropped, at those moments.";
    /// Of two grants that exclude each other, the later has the greater token.
    TOKENS = "tokens", "Of two grants that exclude each other, the later has the greater token.";
    /// A call waits no longer than it says.
    DEADLINE = "deadline", "A call waits at most `timeout × retries`; it holds to within 100 ms also when the server is frozen or gone.";
    /// An error is of a kind that can be.
    ERROR = "error", "An unreachable ZooKeeper is never reported as a busy lock.";
    /// A body runs once for a grant, and never without one.
    BODY = "body", "The body never runs without the lock, whatever fails.";
    /// Everybody is served after the faults.
    SERVED = "served", "Tasks of one process wait in memory, first come, first served; nobody is forgotten.";
    /// Nothing is left of a session that was closed.
    CLEAN = "clean", "Nothing is left behind. A cancelled wait, a panic and a lost answer leave no node.";
    /// Nothing of the library panics.
    PANIC = "panic", "No panic on anything from outside.";
}
