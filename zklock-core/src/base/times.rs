//! Every time that the library chooses: intervals, back-offs and budgets, each with its reason.
//!
//! Most times follow from the session timeout T that the server grants: the lease and its margin in
//! `session/timing`, and what is written here as a part of T. The others bound a wait whatever T is.

use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The first pause of a back-off, which doubles, and the longest.
pub type Pauses = (Duration, Duration);

// What callers can change: the defaults.

/// The session timeout that is requested. A server with the usual tick of 2 s grants 4 to 40 s.
pub const SESSION_TIMEOUT: Duration = s(10);

/// Two ticks of a server with the usual one: the shortest session timeout that it grants, unless its
/// `minSessionTimeout` says otherwise.
pub const TWO_TICKS: Duration = s(4);

/// The time to open the first ZooKeeper session: half a session timeout, in which two silent
/// servers can be passed by.
pub const CONNECT_TIMEOUT: Duration = s(5);

/// One try of an acquire, of which there are two: a caller has an answer within four seconds.
pub const TRY: Duration = s(2);

/// The pauses before an acquire begins again, because its node or the lock's directory was deleted.
/// They begin short, because a directory that a server removed is created again at once, and become
/// long, for a script that deletes nodes all the time.
pub const VANISHED: Pauses = (ms(5), ms(500));

/// How long the tasks of a process may pass a lock to each other, before it checks whether another
/// process waits: about the time of two commits, so that others wait little longer than for those.
pub const HANDOFFS: Duration = ms(10);

// Parts of the session timeout T.

/// Heartbeats in one T: two can be missed before the session is suspect.
pub const HEARTBEATS: u32 = 6;

/// Messages in one T that a session sends whatever else it has to say: so often that each may be late by
/// more than a tenth of T before the session is [silent](SILENCE) for too long.
pub const MESSAGES: u32 = 12;

/// T/3 without an answered commit makes a session suspect.
pub const SUSPECT: u32 = 3;

/// A client that has nothing to ask, not even for the [messages](MESSAGES) of its session, is silent for at most
/// T/5, which is six ticks of the client library or more; eight ticks are the time of [`leave`]. At the first tick
/// at which it has sent nothing for three, it sends a ping: after four ticks at most. While that is not answered,
/// it sends no other one; but at the first tick at which it has received nothing for eight, it leaves the
/// connection: six ticks after that ping, if what was sent before it was answered within a tick. A slower answer
/// makes it longer by as much.
pub const SILENCE: u32 = 5;

/// How long a connection may be silent before the client leaves it: of the timeout that the server granted,
/// and with several servers to go to or with one.
///
/// Six of its eight ticks are T/[`SILENCE`]; the library's own choice, two fifths of T, is too long for that.
/// A client with several servers leaves a silent one after T/6, if that is not too
/// [short](SHORTEST_SILENCE). So it can find one frozen server, come upon it once more, and still be
/// connected to the next before a lease runs out. And where three ticks are longer than the library waits with
/// a ping, a sixth is short enough, too.
pub fn leave(session_timeout: Duration, several: bool) -> Duration {
    let (sixth, usual) = (session_timeout / 6, session_timeout / SILENCE * 8 / 6);
    match several && sixth >= SHORTEST_SILENCE || usual * 3 / 8 > LATEST_PING {
        true => sixth,
        false => usual,
    }
}

/// For how long a client that leaves a silent connection after this time may have received nothing while it is
/// connected: it looks at each of eight ticks.
pub fn silent(leave: Duration) -> Duration {
    leave * 9 / 8
}

/// How long after the last message from a server a session is given up, if none lets it in: a little before
/// the client library does, which takes 7/5 of the session timeout. The server has ended it by then.
pub fn give_up(session_timeout: Duration) -> Duration {
    session_timeout.saturating_mul(69) / 50
}

/// The longest time that an attempt to open a session may take: a little less than the client library
/// gives it, which is a session timeout, or eight ticks of at least a millisecond.
pub fn dial(session_timeout: Duration) -> Duration {
    session_timeout.max(ms(8)) / 10 * 9
}

/// The library sends a ping after that time at the latest, and not after three ticks.
const LATEST_PING: Duration = s(10);

/// The shortest silence for which a client with several servers leaves one earlier than it leaves the only
/// one, so that a busy server does not lose its clients.
pub const SHORTEST_SILENCE: Duration = s(1);

/// The time before a missing reply is acted upon for the first time; each further time takes twice
/// as long. A heartbeat, and at most a second: short enough for a call with the default deadline, or
/// for one try of it.
pub fn reply(session_timeout: Duration) -> Duration {
    (session_timeout / HEARTBEATS).min(s(1))
}

/// The pause between two looks without a watch: a quarter of T, so that a lost holder is noticed
/// soon after its session has expired; but no more than four a second, and no less than one in five.
pub fn look_without_watch(session_timeout: Duration) -> Duration {
    (session_timeout / 4).clamp(ms(250), s(5))
}

/// From when on a wait counts as long, so that it looks again in case its watch was lost, and the
/// leader is asked about the head of the queue: T, in which a lost holder is gone.
pub fn long_wait(session_timeout: Duration) -> Duration {
    session_timeout.max(s(5))
}

// Connections.

/// The pauses after no server opened a session, while the first one is opened.
pub const CONNECT: Pauses = (ms(50), ms(500));

/// The pauses between two attempts to open the next session. They become longer than the first ones,
/// because a session never stops trying.
pub const RECONNECT: Pauses = (ms(50), s(1));

/// How long an acquire that has no node waits for its connection, or for the next session of it, before it goes to
/// another one that is up: most reconnects take less.
pub const ELSEWHERE: Duration = s(1);

/// The longest time to wait for a server's reply to the question whether it serves. It is a quarter
/// of the connect timeout otherwise, so that the rest is left to connect.
pub const PROBE: Duration = s(2);

/// How long closing a ZooKeeper session waits for the server's reply. Without it the session ends
/// with its timeout.
pub const CLOSE: Duration = s(1);

/// The longest time that a session takes to close, or goes on after it is dropped: a commit takes
/// milliseconds, and a program that ends is not to be kept for longer. The last [`CLOSE`] of it is for the goodbye.
pub const FLUSH: Duration = s(5);

/// The time after which an unused lane is closed, approximately: long enough for the next burst.
pub const IDLE_LANE: Duration = s(60);

/// Waits that end within the same one of these end together: thousands of them wake a thread once.
pub const TIMERS: Duration = ms(1);

// Nodes.

/// The pauses between two attempts to delete a node. Others wait for the deletion.
pub const DELETE: Pauses = (ms(20), s(1));

/// How long a caller that does not wait gives a lingering holder to release the lock: several
/// commits.
pub const GIVE_WAY: Duration = ms(100);

/// The shortest time for which a caller that cannot replace the directory leaves it to others.
pub const STEP_ASIDE: Duration = ms(50);

/// How often an unavailable lock is checked: somebody may have removed the mark by hand.
pub const MARK: Duration = s(5);

/// The shortest and the longest time that a mark gets to be written, before which the grant cannot
/// come: a commit, on a slow server. If it takes longer, the mark is written again.
pub const WRITE_MARK: (Duration, Duration) = (ms(5), ms(250));

/// The pause after a look at a lock's queue that failed, while the connection is broken.
pub const FAILED_LOOK: Duration = ms(20);

/// The same for somebody who follows the queue, and has no deadline; ten times as long where the
/// server refuses to answer.
pub const FAILED_FOLLOW: Duration = ms(50);

// Callers of this process.

/// How often a session logs at most that it grants nothing because answers come late: often
/// enough to be in the last lines of a log, and too seldom to fill it.
pub const LATE_ANSWERS: Duration = s(60);

/// The least time that ZooKeeper gets to say who holds the lock.
pub const HOLDER: Duration = ms(60);

/// How much longer than its deadline an acquire waits for that, if the question was sent long enough
/// before.
pub const LATE_HOLDER: Duration = ms(30);

/// How long before the end of a try that question is sent, at most.
pub const ASK_HOLDER: Duration = ms(500);

/// A shorter try than this ends together with the next one: a timer does not tell them apart.
pub const SHORTEST_TRY: Duration = ms(1);

/// How often a waiter checks whether there is a contender to ask about.
pub const CONTENDER: Duration = ms(5);

/// How soon a queue asks again whether a contender is behind a lingering node, where nobody has answered.
pub const LINGERING: Duration = s(1);

/// How often a process looks at most whether somebody is still behind its readers, after it was told of a
/// change: those who come to a busy lock, and leave it, are many.
pub const CLOSED: Duration = ms(100);

/// How many times, and at which intervals, a caller that only tries looks whether a permit is left
/// while another contender is about to take one.
pub const PERMIT_LEFT: (u32, Duration) = (20, ms(10));

/// The time after which a warning is logged about a thread of a runtime that is blocked, and about a
/// wait that may be one for oneself. Most waits are over before.
pub const WARN: Duration = s(1);

/// How long test locks wait for events, which never come if there is no thread for them.
pub const TEST_EVENTS: Duration = s(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest time between two messages of a client whose server answers within a tick, and then
    /// answers no ping: as the client library counts it, in ticks. It is idle for `idle` before a ping.
    fn ticks_of_silence(idle: u32) -> u32 {
        // In hundredths of a tick. The ticks are the multiples of 100.
        let (tick, answer) = (|after: u32| after.div_ceil(100) * 100, 100);
        let silent = (1..=100).map(|sent| {
            let ping = tick(sent + idle);
            let left = tick(sent + answer + 800);
            (ping - sent).max(left - ping)
        });
        silent.max().unwrap_or_default().div_ceil(100)
    }

    #[test]
    fn a_client_whose_pings_are_not_answered_is_silent_no_longer_than_is_allowed_for() {
        assert_eq!(ticks_of_silence(300), 6);
        for millis in (100..600_000).step_by(100) {
            let session_timeout = ms(millis);
            for several in [false, true] {
                let leave = leave(session_timeout, several);
                let latest = LATEST_PING.as_millis() * 100 / (leave / 8).as_millis().max(1);
                let idle = u32::try_from(latest).unwrap_or(u32::MAX).min(300);
                let silent = leave / 8 * ticks_of_silence(idle);
                assert!(silent <= session_timeout / SILENCE, "{session_timeout:?}: {silent:?}");
                // Of what is longer, the library takes no notice.
                assert!(leave <= session_timeout * 3 / 5);
            }
        }
    }

    #[test]
    fn a_silent_server_is_left_sooner_where_there_are_others() {
        for (seconds, one, several) in
            [(4, 1_066, 1_066), (6, 1_600, 1_000), (10, 2_666, 1_666), (30, 8_000, 5_000)]
        {
            let left = |others| leave(s(seconds), others).as_millis();
            assert_eq!((left(false), left(true)), (one, several), "{seconds} s");
        }
    }
}
