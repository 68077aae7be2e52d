//! Guards that stop where the session is suspect, and guards that do not.

use std::time::Duration;

use tokio::time::sleep;
use zklock::{LockOptions, MutexGuard, Session, SessionState, StopAt};
use zklock_test_support::{Cut, Proxy};

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
async fn an_overdue_heartbeat_costs_only_the_guard_that_stops_there() {
    let cast = cast("stop-at-overdue").await;
    cast.proxy.black_hole(true);
    let seen = until("it is suspect", || {
        (cast.session.state() == SessionState::Suspended).then(|| cast.careful.remaining())
    });
    let (remaining, ()) = soon("the loss", async { (seen.await, cast.careful.lost().await) }).await;
    assert!(remaining.is_zero());
    assert!(!cast.careful.is_valid() && cast.patient.is_valid());
    cast.proxy.black_hole(false);
    end(cast).await;
}
