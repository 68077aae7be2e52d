//! What must hold in every schedule, each rule with the sentence of the documentation that it is.

mod asked;
mod asking;
mod back;
mod check;
mod closed;
mod delays;
mod elsewhere;
mod entering;
mod free;
mod grants;
mod kept_out;
mod kinds;
mod lately;
mod ledger;
mod left_alone;
mod limits;
mod lingering;
mod log;
mod lowered;
mod others;
mod passed;
mod scopes;
mod told;
mod turns;
mod unheard;

pub use asking::Asking;
pub use kept_out::Caller;
pub use kinds::Using;
pub use ledger::{ASKED, Entry, Holding, Ledger, Violation};
pub use log::{Line, Lines};
pub use scopes::Inner;
pub use told::Account;
pub use turns::Question;

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
    EXCLUSION = "exclusion", "Of two holders that exclude each other, the first one's guard is invalid before the second one's is valid, in silence and in pauses";
    /// A guard is not valid while its node is gone because its session ended by itself.
    IN_TIME = "in-time", "in case of silence, work stops before ZooKeeper frees the lock, and a paused process notices before it does anything else.";
    /// A guard whose node somebody else took away says so soon.
    TOLD = "told", "within one heartbeat (a sixth of the session timeout) when somebody deletes the node or closes the ZooKeeper session";
    /// A guard that has been held for long, and whose node somebody else took away, says so at once.
    AT_ONCE = "told-at-once", "within a heartbeat, T/6; at once if the lock was held for longer than T/4, had to wait in ZooKeeper's queue for a mutex, or is `revocable`";
    /// A guard that is handed out is valid.
    VALID = "valid-when-granted", "`is_valid()`, every grant and every handoff read that clock: a guard is valid when it is handed out.";
    /// A guard that is lost stays so.
    FOR_GOOD = "lost-for-good", "A lost guard stays lost, even if the connection comes back.";
    /// `lost()` resolves when the guard is no longer valid.
    LOST = "lost-resolves", "At these moments `is_valid()` turns false, `remaining()` reaches zero, `lost()` resolves, and an async body is dropped.";
    /// Of two grants that exclude each other, the later has the greater token.
    TOKENS = "tokens", "Of two grants that exclude each other, the later has the greater token.";
    /// A call waits no longer than it says.
    DEADLINE = "deadline", "A call waits for its lock at most `timeout × retries`, connecting included";
    /// An error is of a kind that can be.
    ERROR = "error", "An unreachable ZooKeeper is never reported as a busy lock.";
    /// A body runs once for a grant, and never without one.
    BODY = "body", "A body begins only while its caller holds the lock, whatever fails";
    /// Everybody is served after the faults.
    SERVED = "served", "A waiter gets its turn when ZooKeeper answers again, also if nobody new comes";
    /// Nothing is left of a session that was closed.
    CLEAN = "clean", "Nothing is left behind by a cancelled wait, a panic, an error or a reply that is lost";
    /// A grant by ZooKeeper is that of a node which is there.
    THERE = "there-when-granted", "If somebody deletes that node, the waiter queues up again at once, and does not take the later deletion of the node ahead for its turn";
    /// A guard is not lost before its time without a reason.
    REASON = "lost-for-a-reason", "A shorter outage has no effect.";
    /// A guard that stops where its session is suspect does so.
    STOPS = "stops-when-suspect", "Such a guard is lost as soon as its connection is suspect";
    /// Who waits for the end of a guard that is dropped is told.
    ENDED = "end-is-told", "Resolves when the lock is lost, when its time is over, and when the guard is dropped or released.";
    /// Who is asked to let go learns it.
    WISH = "wish-is-told", "watches the holder's own node from the grant on, so that the holder learns at once that it is asked to release | it learns within a heartbeat";
    /// Who is asked to let go lets nobody else of its process in.
    ASKED_TO = "asked-lets-nobody-in", "Until it has done so, its process grants the lock to no other of its tasks, not even to a reader beside readers";
    /// Who asked first is served first, where that is promised.
    ORDER = "order", "gives each waiting task a node of its own: strictly first come, first served among all processes, and slower.";
    /// A lock is busy only if somebody held it or was ahead.
    BUSY = "busy-if-held", "Busy means that ZooKeeper said who is in the way";
    /// A store that answers is not unavailable.
    AVAILABLE = "available-if-answered", "without an answer the error is unavailable";
    /// A process does not keep a lock to itself.
    HANDOFFS = "handoffs", "how many times, and for how long, tasks of one process pass the lock to each other before other processes get their turn";
    /// A lock is kept from each grant for as long as it says.
    HOLD = "hold-at-least", "keeps the lock for this time from the grant, even if it is released earlier";
    /// A guard is valid only for as long after a write as the session certainly lives.
    LEASE = "lease", "The time for which a guard is valid after the last answered write was sent: T − margin.";
    /// A guard is not valid for longer than its lock says.
    MOST = "hold-at-most", "ends a call that holds the lock for longer";
    /// A lock that somebody waits for is not left free.
    FREE = "not-left-free", "a lock that is free is not left to itself while somebody waits for it";
    /// Who has released a lock finds its node gone.
    RELEASED = "released", "Releases the lock, and waits until the node is deleted or the lock has passed to the next waiter of this process.";
    /// A lock rests after the loss of its holder.
    DELAY = "lock-delay", "keeps the lock unavailable for this time after its holder crashed or lost its session";
    /// After a close nothing is left on the servers.
    CLOSED = "closed", "No lock is granted any more, held locks are lost, pending deletions are completed, and a connection that is being opened is closed.";
    /// A directory that was made and not used goes.
    UNUSED = "unused", "zklock deletes a directory that it created and did not use.";
    /// Of one lock that must not be used in two ways at a time, nobody is let in in a second way.
    MIXED = "mixed", "A name also has one kind.";
    /// A semaphore of kazoo's has no more children than permits.
    ROOM = "room", "Several permits are created one after the other under one hold of the inner lock, when there is room for all of them.";
    /// All who hold permits of kazoo's semaphore at a time have the same limit.
    ONE_LIMIT = "one-limit", "zklock compares it at each acquire, and fails with both numbers if they differ";
    /// Whoever waits in the process of a holder whose node was deleted queues up as soon as that is told.
    NEXT = "next-at-once", "The holder's node is deleted by somebody | the next is granted the lock at once";
    /// Permits that somebody waits for are not left free.
    RAISED = "room-is-used", "Waiters obey a new number at once.";
    /// Who is granted a permit obeys the limit that is in ZooKeeper.
    LOWERED = "limit-is-obeyed", "Waiters obey a new number at once. Within a process, permits are still passed on until the limit of `handoffs` is reached";
    /// Who is told that a lock is busy is told by whom.
    NAMED = "holder-is-named", "somebody else holds the lock | try later; `holder()` says who, if it is known";
    /// A lock that lingers is kept.
    LINGERS = "lingers", "keeps the node for this time after the last release, or until another process queues for it";
    /// Who asks once for a lock that only lingers gets it.
    GIVES_WAY = "gives-way", "zklock waits at most 100 ms for such a node to be deleted";
    /// Who holds a lock is shown as its holder, and who waits as waiting.
    SHOWN = "shown", "Lists the queue of this lock in order: the holder first, then the waiters in the order of their grants.";
    /// Who follows a queue is told that it cannot be read.
    BLIND = "blindness-is-told", "The connection is lost, there is no ZooKeeper session, or ZooKeeper refuses to show the queue";
    /// Who breaks a lock deletes nothing else.
    EXACT = "breaks-exactly", "deletes the node of a holder that hangs, exactly the one that the list shows";
    /// Who waits for itself by another handle is told.
    ITSELF = "told-of-itself", "If one task might be waiting for itself in this way, a log entry says so after one second, and so does the busy error at the end.";
    /// A lock in use is not taken in another layout.
    LAYOUTS = "one-layout", "Within a process, a lock has one layout.";
    /// Nobody asks for the same thing without a pause.
    REPEATED = "pauses", "If an answer comes too late to prove anything, the client pauses before it asks again.";
    /// Nobody keeps its thread while it waits.
    SPINS = "lets-others-run", "A task that waits for a time lets others run meanwhile, and does not look at the clock until it shows that time.";
    /// Nobody asks for a node that would be made after the connection is back.
    NOT_DOWN = "not-while-down", "a create request that is sent while it is down would be applied after the reconnect, even if the caller has given up.";
    /// A nested call waits for the one beside it.
    NESTED = "nested", "nested calls that run concurrently in one scope take turns";
    /// A nested call also waits for what was nested in the one beside it.
    SIBLINGS = "siblings", "The guards in its scope keep that turn, too: as long as one of them holds the lock, no sibling does.";
    /// A nested call gets its turn when nobody else is in its scope.
    TURNS = "next-sibling", "When it is dropped, the next sibling gets the slot.";
    /// What is nested holds the lock as the outermost guard does, and keeps it.
    CONTINUES = "continues", "A call inside a body that takes the same lock continues under the lock that is held";
    /// A writer in which something is nested does not become a reader.
    STEPS_DOWN = "not-downgraded", "Its error is [`ErrorKind::Deadlock`] if a nested call holds the lock again";
    /// What was lost keeps its node, and so others out, until whoever acquired it lets go of it or begins anew.
    KEPT_OUT = "kept-out", "Its node, if it still exists, keeps others out until the guard is dropped, or until the task that acquired it acquires the lock anew.";
    /// Whoever deletes a node deletes its own.
    OTHERS = "others-nodes-stay", "If somebody deletes the node of a holder by hand, and another takes the lock within the round trip in which that holder releases it, the release deletes the other's node.";
    /// Who asks inside of what is lost is told so, and waits for nobody.
    INSIDE = "lost-inside", "[`ErrorKind::Lost`] and [`ErrorKind::HeldTooLong`] inside the scope of a guard of this lock that is no longer valid";
    /// Who asks again for a lock that is not reentrant is told so.
    NOT_AGAIN = "not-acquired-again", "Otherwise such an acquire fails at once with `Deadlock`.";
    /// What is done about an answer that is missing is done soon.
    ANSWERS = "answers-are-not-awaited", "A server or a proxy may lose a single reply although the connection lives on. zklock acts after a sixth of the session timeout (at most one second)";
    /// A connection that is silent is not used while another one is served.
    LANES = "served-connections-first", "A lane that is not served, because its connection is down or its server is silent, is not used while another one is served.";
    /// Who waits by a connection that gets no session goes on by another one.
    ELSEWHERE = "goes-elsewhere", "a call that waits for it goes on by another one after a second, and queues up there anew";
    /// A server that was left because it differs is not used again.
    DIVERGED = "diverged-servers-are-left", "everything else moves to another server, on each connection of the session, and a server that still shows the node is not used again.";
    /// A reader is not let in to write.
    UPGRADE = "upgrade", "To acquire it for writing there fails at once with `Deadlock`, because two readers that both want to write would wait for each other.";
    /// Of several locks as one, none is held where not all are.
    TOGETHER = "all-or-none", "several locks of any kind as one: all or none, always in the same order, within one deadline";
    /// A lock is seen from outside, and its holder hears who asks for it.
    OUTSIDE = "from-outside", "each heartbeat is a write that checks the held nodes: that each one exists, and that nobody changed its data to ask for its release.";
    /// Whose body panics, and who drops a call, holds nothing more.
    LET_GO = "let-go", "The lock is released once everything that the function owns has been dropped: at its end, on `?` and `return`, on a panic, and when its future is dropped.";
    /// What is lost keeps no session that drains.
    DRAINED = "drained", "A lock that is lost meanwhile is not waited for.";
    /// No ZooKeeper session has more nodes than servers bear at its end, and nobody is refused before all have many.
    NODES = "nodes-of-a-session", "from 700 KiB of paths on, a session opens another connection, up to `max_connections`, and where all of them have 1,800 KiB";
    /// Who is asked to let go holds the lock, and is no other lock in its directory.
    OTHERS_BELOW = "others-below", "ignored, because it belongs to no session and has had children; other clients wait for it";
    /// Nothing is asked for above the deepest node that is there.
    DEEPEST = "deepest-first", "ZooKeeper asks whether a node may be created before it looks whether the node exists, and above the root that may be forbidden.";
    /// What may not be written is not written again and again.
    ONE_REFUSAL = "refused-once", "As each refusal costs a request and proves nothing, nothing is written then";
    /// Who may not do what it needs does not wait.
    REFUSED_AT_ONCE = "refused-at-once", "`Unauthorized` at once; it does not wait";
    /// Readers that wait for a writer enter when it steps down.
    ENTERS = "readers-enter", "readers that wait for this writer enter, unless it was asked to release.";
    /// Readers that wait in one process are let in together.
    SHARED = "readers-share", "Readers of one process share one node in ZooKeeper, until a writer of this process waits";
    /// The guard of a lock that was lost says so when it is released.
    SAYS_LOST = "release-says-lost", "[`ErrorKind::Lost`] if the lock was lost before, unless a nested call holds it as well: then that call gets the error when it ends";
    /// What a body returns that had lost the lock by its end does not count, and its caller is told so.
    DISCARDED = "discarded-when-lost", "The body ran to its end, perhaps without the lock in its last part. Its result was discarded.";
    /// Nothing is written under a lock whose node is gone, and who writes is told so.
    FENCED = "fenced-writes", "A guard's `fenced()` writes to ZooKeeper only while the lock is held.";
    /// Observers are told of those calls that their callers gave up, and of no others.
    CANCELLED = "cancelled-by-its-caller", "A caller gave up its wait: the future of its acquire was dropped.";
    /// Observers are told of a release for each grant, and of no other.
    RELEASED_ONCE = "released-once", "A lock was released. If `error` is `None`, the lock has passed to the next waiter of this process, or its node is deleted";
    /// Observers are told of the loss of each held lock.
    LOSSES_TOLD = "losses-are-told", "A lock was lost while it was held.";
    /// The log tells of the loss of a held lock once.
    LOGGED_ONCE = "log-tells-once", "\"a held lock was lost\", with the lock, the path and the reason, once, whoever notices it first";
    /// The log does not say of a held lock that nobody held it.
    LOGGED_LOSS = "log-knows-holders", "\"a node was lost under which nobody was granted the lock\", which is acquired again";
    /// The log does not say of a process that it stood still which did not.
    STOOD_STILL = "log-knows-standstills", "\"the process stood still: a new ZooKeeper session is opened\": it, or its machine, was stopped for longer than a lease";
    /// Nothing of the library panics.
    PANIC = "panic", "What a server or another client does is never a panic";
}

/// What holds whatever the clocks of the processes show: the rest is about times, or about leases, which each
/// process measures on its own clock.
pub const WITHOUT_CLOCKS: &[Rule] = &[
    TOKENS,
    FOR_GOOD,
    DEADLINE,
    ERROR,
    BODY,
    SERVED,
    CLEAN,
    NESTED,
    NOT_AGAIN,
    ORDER,
    BUSY,
    NAMED,
    EXACT,
    MIXED,
    ONE_LIMIT,
    NOT_DOWN,
    LAYOUTS,
    CLOSED,
    UNUSED,
    ASKED_TO,
    UPGRADE,
    TOGETHER,
    LET_GO,
    PANIC,
    SIBLINGS,
    TURNS,
    CONTINUES,
    STEPS_DOWN,
    KEPT_OUT,
    INSIDE,
    SPINS,
    SAYS_LOST,
    FENCED,
    DISCARDED,
    CANCELLED,
    RELEASED_ONCE,
    LOGGED_ONCE,
];

/// What holds however long answers take: the rest is about what is done soon.
pub const FROM_AFAR: &[Rule] = &[
    EXCLUSION, IN_TIME, VALID, FOR_GOOD, LOST, TOKENS, ERROR, BODY, SERVED, CLEAN, REASON, ENDED,
    LEASE, MOST, DELAY, ROOM, NESTED, UPGRADE, TOGETHER, KEPT_OUT, FENCED, DISCARDED, PANIC, SPINS,
];
