//! Session timeouts below two ticks of the server, as its `minSessionTimeout` can allow them.

use std::time::Duration;

use tokio::task::JoinSet;
use zklock::{ErrorKind, SessionBuilder};
use zklock_test_support::{Proxy, Warnings, ZooKeeper, monotonic_ns};

use crate::bed::{Bed, acquiring, soon, until};

/// ZooKeeper's own.
const TICK: Duration = Duration::from_secs(2);

/// The shortest that these servers grant. What is left of it is not enough for a lease.
const LEAST: Duration = Duration::from_secs(2);

/// Just long enough: 2.143 s are.
const T: Duration = Duration::from_millis(2_200);

/// Of a session that is told the tick.
fn builder(bed: &Bed, addr: &str, session_timeout: Duration) -> SessionBuilder {
    bed.builder_at(addr).session_timeout(session_timeout).tick_time(TICK)
}

#[tokio::test]
async fn a_session_timeout_that_cannot_be_safe_is_refused_with_the_numbers() {
    let bed = Bed::own_with(|server| server.tick_time(TICK).min_session_timeout(LEAST));
    let busy = bed.busy(&[]).await;
    // Also where the server grants more than was asked for.
    for asked in [LEAST / 2, LEAST] {
        let error = builder(&bed, &bed.server().addr(), asked).connect().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidOption, "1018"), "{error:#}");
        assert!(error.is_permanent(), "{error:#}");
        for number in ["timeout of 2s", "400ms", "1s is half a tick", "at least 2.14285"] {
            assert!(format!("{error:#}").contains(number), "{number}: {error:#}");
        }
    }
    let session = bed.adopt(builder(&bed, &bed.server().addr(), T).connect().await.unwrap());
    let timing = session.timing().unwrap();
    assert_eq!((timing.session_timeout, timing.margin), (T, T / 5 + TICK / 2));
    drop(busy);
    bed.end().await;
}

/// Nobody can refuse it: the servers do not tell their tick.
#[tokio::test]
async fn where_the_tick_is_not_told_a_session_timeout_below_two_is_warned_of_once() {
    // Of no other test of this process.
    const UNTOLD: Duration = Duration::from_millis(2_345);
    const TOLD: Duration = Duration::from_millis(2_346);
    let said = Warnings::everywhere();
    let bed = Bed::own_with(|server| server.tick_time(TICK).min_session_timeout(LEAST));
    let untold = |timeout| bed.builder().session_timeout(timeout).connect();
    let session = bed.adopt(untold(UNTOLD).await.unwrap());
    // Another connection of it says nothing.
    let mut acquiring = JoinSet::new();
    for number in 0..20 {
        let mutex = session.mutex(format!("{number}")).unwrap();
        acquiring.spawn(async move { drop(mutex.acquire().await.unwrap()) });
    }
    until("it has another one", || (bed.server().sessions().len() > 1).then_some(())).await;
    acquiring.join_all().await;
    let lines = said("session_timeout=2.345s");
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    for part in ["lease=1.28975s", "margin=1.05525s", "`tick_time`"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // Nor do those that cannot be wrong.
    bed.adopt(builder(&bed, &bed.server().addr(), TOLD).connect().await.unwrap());
    bed.adopt(untold(2 * TICK).await.unwrap());
    for timeout in [TOLD, 2 * TICK] {
        assert_eq!(said(&format!("session_timeout={timeout:?}")), [""; 0]);
    }
    bed.end().await;
}

/// Waits until the servers are about to look for sessions that have expired: what a server hears before
/// it, and this long after `T` before it, is the last that counts for the session at that look.
async fn until_a_look(before: Duration) {
    // They look when their monotonic clock is a multiple of the tick.
    let tick = u64::try_from(TICK.as_nanos()).unwrap();
    let now = Duration::from_nanos(monotonic_ns() % tick);
    let due = 3 * TICK - (T - before);
    tokio::time::sleep(Duration::from_nanos(u64::try_from((due - now).as_nanos()).unwrap() % tick))
        .await;
}

/// The leader learns each half tick of whom its followers have heard. What it knows is the older, the
/// later after that the follower is cut off.
#[tokio::test]
async fn behind_a_black_hole_a_guard_is_lost_before_another_is_granted() {
    lost_before_granted(false).await;
}

/// The follower hears something of it all the time.
#[tokio::test]
async fn behind_a_black_hole_a_guard_is_lost_before_another_is_granted_on_a_busy_day() {
    lost_before_granted(true).await;
}

async fn lost_before_granted(is_busy: bool) {
    // How much later than the first that counts for a look, in hundredths of a tick. What is known of a
    // session then is older than that, or not: it depends on when the leader asks.
    const LATER: [u32; 6] = [3, 6, 12, 25, 6, 25];
    let bed = Bed::three(ZooKeeper::builder().tick_time(TICK).min_session_timeout(LEAST));
    let ensemble = bed.ensemble();
    let follower = ensemble.followers()[0];
    let proxy = Proxy::start(ensemble.server(follower).socket_addr());
    let holder = bed.adopt(builder(&bed, &proxy.addr(), T).connect().await.unwrap());
    let leader = ensemble.server(ensemble.leader()).addr();
    let other = bed.adopt(bed.builder_at(&leader).connect().await.unwrap());
    let busy = if is_busy { Some(bed.busy_while_broken(&[&holder]).await) } else { None };
    let (mut round, mut spoilt) = (0, 0);
    while round < LATER.len() {
        until("it is connected", || holder.is_ready().then_some(())).await;
        let guard = soon("the lock", acquiring(&holder, "a")).await.unwrap();
        let waiting = acquiring(&other, "a");
        bed.until_contenders("a", 2).await;
        let view = guard.view();
        let granted = tokio::spawn(async move {
            let next = waiting.await.unwrap();
            (next, view.is_valid(), monotonic_ns())
        });
        until_a_look(TICK / 100 * LATER[round]).await;
        // A commit prolongs the lease, and the leader does not take it for a sign of life.
        drop(holder.mutex("b").unwrap().try_acquire().await);
        // The machine was so slow that the lease ended by itself: that shows nothing.
        let counts = guard.is_valid();
        let start = monotonic_ns();
        match round {
            0..4 => ensemble.isolate(follower),
            _ => proxy.black_hole(true),
        }
        soon("the loss", guard.lost()).await;
        let lost = monotonic_ns();
        assert!(!guard.is_valid());
        let (next, is_beside, granted) = soon("the next", granted).await.unwrap();
        let after = |at: u64| Duration::from_nanos(at.saturating_sub(start));
        println!(
            "{round}: lost after {:?}, granted after {:?}, counts: {counts}",
            after(lost),
            after(granted)
        );
        assert!(!is_beside && next.fencing_token() > guard.fencing_token());
        // Of one that ended by itself nobody knows when it did.
        assert!(lost < granted || !counts);
        proxy.black_hole(false);
        ensemble.heal(follower);
        drop(guard);
        next.release().await.unwrap();
        round += usize::from(counts);
        spoilt += usize::from(!counts);
        assert!(spoilt < 3 * LATER.len(), "the machine is too slow for leases of {T:?} / 3");
    }
    drop(busy);
    bed.end().await;
}
