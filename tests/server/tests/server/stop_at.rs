//! Guards that stop where the session is suspect, and guards that do not.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use zklock::{LockOptions, MutexGuard, Session, SessionState, StopAt};
use zklock_test_support::{Action, Control, Cut, Matcher, OpCode, Proxy};

use crate::bed::{Bed, acquiring, soon, until};

const SESSION_TIMEOUT: Duration = Duration::from_secs(12);

struct Cast {
    bed: Bed,
    proxy: Proxy,
    session: Session,
    careful: MutexGuard,
    patient: MutexGuard,
}

/// One session behind a proxy that holds two locks, and was idle before.
async fn cast(root: &str) -> Cast {
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    let session = bed.session_of_through(SESSION_TIMEOUT, &proxy).await;
    let options = LockOptions::default().stop_at(StopAt::Suspect);
    let careful = session.mutex("a").unwrap().with_options(options);
    let careful = careful.acquire().await.unwrap();
    let patient = session.mutex("b").unwrap().acquire().await.unwrap();
    Cast { bed, proxy, session, careful, patient }
}

/// The connection is back: only the one is lost, and holds the lock until it is let go.
async fn end(cast: Cast) {
    let Cast { bed, proxy, session, careful, patient } = cast;
    until("it is connected", || (session.state() == SessionState::Connected).then_some(())).await;
    assert!(!careful.is_valid() && careful.remaining().is_zero());
    assert!(patient.is_valid());
    let other = bed.session().await;
    assert!(other.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    let waiting = acquiring(&other, "a");
    let token = careful.fencing_token();
    assert!(careful.release().await.unwrap_err().is_lost());
    let next = soon("the lock", waiting).await.unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    patient.release().await.unwrap();
    proxy.heal();
    bed.end().await;
}

#[tokio::test]
async fn a_cut_link_costs_only_the_guard_that_stops_there() {
    let cast = cast("stop-at-cut").await;
    for _ in 0..100 {
        sleep(SESSION_TIMEOUT / 200).await;
        // Heartbeats keep both, for longer than a third of the session timeout.
        assert!(cast.careful.is_valid() && cast.patient.is_valid());
    }
    cast.proxy.refuse(true);
    cast.proxy.cut(Cut::Reset);
    soon("the loss", cast.careful.lost()).await;
    assert!(!cast.careful.is_valid() && cast.patient.is_valid());
    let suspended = || (cast.session.state() == SessionState::Suspended).then_some(());
    until("its session says so", suspended).await;
    assert!(cast.patient.is_valid());
    cast.proxy.refuse(false);
    end(cast).await;
}

#[tokio::test]
async fn silence_costs_only_the_guard_that_stops_there() {
    let cast = cast("stop-at-silence").await;
    let control = Control::timers();
    cast.proxy.black_hole(true);
    let start = Instant::now();
    suspect_within_a_third(&cast, &control, start).await;
    cast.proxy.black_hole(false);
    end(cast).await;
}

/// Pings and reads are answered all the time.
#[tokio::test]
async fn an_overdue_heartbeat_costs_only_the_guard_that_stops_there() {
    let cast = cast("stop-at-overdue").await;
    let (control, connections) = (Control::timers(), cast.proxy.connections_total());
    let writes = Matcher::reply(OpCode::Multi).or(OpCode::Create2);
    let writes = writes.or(OpCode::Delete).or(OpCode::SetData);
    let unheard = cast.proxy.on(writes, Action::Drop);
    let start = Instant::now();
    suspect_within_a_third(&cast, &control, start).await;
    assert!(unheard.hits() > 0);
    assert_eq!(cast.proxy.connections_total(), connections, "the connection was left");
    unheard.release();
    end(cast).await;
}

/// Waits until the session is suspect, which it is in time.
async fn suspect_within_a_third(cast: &Cast, control: &Control, start: Instant) {
    let seen = until("it is suspect", || {
        (cast.session.state() == SessionState::Suspended).then(|| cast.careful.remaining())
    });
    let (remaining, ()) = soon("the loss", async { (seen.await, cast.careful.lost().await) }).await;
    control.within("suspect", start.elapsed(), SESSION_TIMEOUT / 3);
    assert!(remaining.is_zero());
    assert!(!cast.careful.is_valid() && cast.patient.is_valid());
}
