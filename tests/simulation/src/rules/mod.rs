//! What must hold in every schedule, each rule with the sentence of the documentation that it is.

mod asking;
mod check;
mod closed;
mod free;
mod grants;
mod kinds;
mod ledger;
mod lingering;

pub use asking::Asking;
pub use kinds::Using;
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
    /// A grant by ZooKeeper is that of a node which is there.
    THERE = "there-when-granted", "The deletion of the node ahead is a grant only to a node that is known to be there still.";
    /// A guard is not lost before its time without a reason.
    REASON = "lost-for-a-reason", "A shorter outage has no effect.";
    /// A guard that stops where its session is suspect does so.
    STOPS = "stops-when-suspect", "A session is suspect while it is not connected.";
    /// Who waits for the end of a guard that is dropped is told.
    ENDED = "end-is-told", "`view.lost()` resolves also when the guard is dropped or handed on.";
    /// Who is asked to let go learns it.
    WISH = "wish-is-told", "A holder learns of the request within a heartbeat, or at once if its lock is revocable.";
    /// Who asked first is served first, where that is promised.
    ORDER = "order", "`fair`: requests are sent in the order of the calls.";
    /// A lock is busy only if somebody held it or was ahead.
    BUSY = "busy-if-held", "A lock is busy only if ZooKeeper said so.";
    /// A store that answers is not unavailable.
    AVAILABLE = "available-if-answered", "A call fails as unavailable only where an answer was missing.";
    /// A process does not keep a lock to itself.
    HANDOFFS = "handoffs", "After this number of handoffs, or this time, the lock goes to the back of the queue if another process waits.";
    /// A lock is kept from each grant for as long as it says.
    HOLD = "hold-at-least", "`hold_at_least`: the lock is kept from the grant, even if it is released earlier.";
    /// A guard is valid only for as long after a write as the session certainly lives.
    LEASE = "lease", "The time for which a guard is valid after the last answered write was sent: T − margin.";
    /// A guard is not valid for longer than its lock says.
    MOST = "hold-at-most", "A guard that is held for longer than `hold_at_most` is not valid.";
    /// A lock that somebody waits for is not left free.
    FREE = "not-left-free", "In the ZooKeeper queue each contender watches the one before it.";
    /// Who has released a lock finds its node gone.
    RELEASED = "released", "`release` waits until the node is deleted or the lock has passed to the next waiter of this process.";
    /// A lock rests after the loss of its holder.
    DELAY = "lock-delay", "`lock_delay`: the lock is unavailable after a holder was lost.";
    /// After a close nothing is left on the servers.
    CLOSED = "closed", "`close` flushes the releaser and ends the ZooKeeper sessions.";
    /// A directory that was made and not used goes.
    UNUSED = "unused", "A container that was created and not used is deleted by the client that created it.";
    /// Of one lock that must not be used in two ways at a time, nobody is let in in a second way.
    MIXED = "mixed", "A name is used as one kind of lock at a time.";
    /// A semaphore of kazoo's has no more children than permits.
    ROOM = "room", "In kazoo's layout a permit is made when there is room for it.";
    /// All who hold permits of kazoo's semaphore at a time have the same limit.
    ONE_LIMIT = "one-limit", "In kazoo's layout the limit is in ZooKeeper; all processes must use the same one.";
    /// Permits that somebody waits for are not left free.
    RAISED = "room-is-used", "A new number takes effect while callers wait: a higher one lets some of them in.";
    /// Who is told that a lock is busy is told by whom.
    NAMED = "holder-is-named", "`Busy`: somebody else holds the lock; `holder()` says who.";
    /// A lock that lingers is kept.
    LINGERS = "lingers", "`linger`: keeps the node for this time after the last release, or until another process queues for it.";
    /// Who breaks a lock deletes nothing else.
    EXACT = "breaks-exactly", "Exactly the node is deleted that `contenders` returned.";
    /// Who waits for itself by another handle is told.
    ITSELF = "told-of-itself", "If one task might be waiting for itself in this way, so does the busy error at the end say.";
    /// A lock in use is not taken in another layout.
    LAYOUTS = "one-layout", "Another layout on the same name: within a process an error.";
    /// Nobody asks for the same thing without a pause.
    REPEATED = "pauses", "For half a tick after a standstill commits prove too little for a grant: who downgrades then asks few times.";
    /// Nobody asks for a node that would be made after the connection is back.
    NOT_DOWN = "not-while-down", "A create request that is sent while it is down would be applied after the reconnect, even if the caller has given up.";
    /// A nested call waits for the one beside it.
    NESTED = "nested", "Nested calls that run side by side in one scope take turns.";
    /// Who asks again for a lock that is not reentrant is told so.
    NOT_AGAIN = "not-acquired-again", "Otherwise such an acquire fails at once with `Deadlock`.";
    /// What is done about an answer that is missing is done soon.
    ANSWERS = "answers-are-not-awaited", "A server or a proxy may lose a single reply although the connection lives on. zklock acts after a sixth of the session timeout.";
    /// A connection that is silent is not used while another one is served.
    LANES = "served-connections-first", "A lane that is not served, because its connection is down or its server is silent, is not used while another one is served.";
    /// A server that was left because it differs is not used again.
    DIVERGED = "diverged-servers-are-left", "New acquires use another ZooKeeper session, on a server that does not show the node.";
    /// Nothing of the library panics.
    PANIC = "panic", "No panic on anything from outside.";
}

/// What holds whatever the clocks of the processes show: the rest is about times, or about leases, which each
/// process measures on its own clock.
pub const WITHOUT_CLOCKS: &[Rule] = &[
    TOKENS, FOR_GOOD, DEADLINE, ERROR, BODY, SERVED, CLEAN, NESTED, NOT_AGAIN, ORDER, BUSY, NAMED,
    EXACT, MIXED, ONE_LIMIT, NOT_DOWN, LAYOUTS, CLOSED, UNUSED, PANIC,
];
