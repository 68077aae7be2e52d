//! What a guard learns while other locks come and go on the same session.

use std::time::{Duration, Instant};

use zklock::{AnyGuard, AnyLock, MultiLock, Session};
use zklock_test_support::Control;

use crate::bed::{Bed, soon, until};
use crate::busy::Busy;

const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// A sixth of it.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// One lock of each kind.
fn of_every_kind(session: &Session) -> Vec<AnyLock> {
    vec![
        session.mutex("mutex").unwrap().into(),
        AnyLock::Read(session.rw_lock("read").unwrap()),
        AnyLock::Write(session.rw_lock("write").unwrap()),
        AnyLock::Permits(session.semaphore("semaphore", 2).unwrap(), 1),
        session.mutex("exclusive").unwrap().with_driver(zklock::layout::OneNode).into(),
    ]
}

/// A busy session in which one lock of each kind is held.
async fn busy(bed: &Bed) -> (Session, Busy, Vec<AnyGuard>) {
    let session = bed.builder().session_timeout(SESSION_TIMEOUT).connect().await.unwrap();
    let session = bed.adopt(session);
    let traffic = bed.busy(&[&session]).await;
    let mut guards = Vec::new();
    for lock in of_every_kind(&session) {
        guards.push(lock.acquire().await.unwrap());
    }
    (session, traffic, guards)
}

#[tokio::test]
async fn a_deletion_is_told_within_a_heartbeat_for_every_kind_on_a_busy_session() {
    let bed = Bed::shared("busy-deleted");
    let mut raw = bed.raw();
    // Just taken, and watched already.
    for held_for in [Duration::ZERO, Duration::from_millis(1_500)] {
        let (session, traffic, guards) = busy(&bed).await;
        let members = ["multi1", "multi2"].map(|name| session.mutex(name).unwrap());
        let multi = MultiLock::new(members).unwrap().acquire().await.unwrap();
        tokio::time::sleep(held_for).await;
        let mut paths: Vec<_> = guards.iter().map(|guard| guard.node_path()).collect();
        paths.push(multi.members()[1].node_path());
        let (control, start) = (Control::of(bed.server()), Instant::now());
        paths.iter().for_each(|path| raw.delete(path).unwrap());
        for guard in &guards {
            soon("the loss", guard.lost()).await;
            let what = format!("{}, held for {held_for:?}", guard.lock_name());
            // A heartbeat asks for all, and reads what is gone.
            control.within_answers(&what, start.elapsed(), HEARTBEAT, 2);
            assert!(!guard.is_valid());
        }
        soon("the loss", multi.lost()).await;
        control.within_answers("multi", start.elapsed(), HEARTBEAT, 2);
        drop((guards, multi));
        drop(traffic);
    }
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_wish_to_let_go_is_told_within_a_heartbeat_for_every_kind_on_a_busy_session() {
    let bed = Bed::shared("busy-revoked");
    let (_session, traffic, guards) = busy(&bed).await;
    let (mut raw, control) = (bed.raw(), Control::of(bed.server()));
    let start = Instant::now();
    guards.iter().for_each(|guard| raw.set_data(guard.node_path(), b"__REVOKE__").unwrap());
    for guard in &guards {
        soon("the wish", guard.revoked()).await;
        control.within(guard.lock_name(), start.elapsed(), HEARTBEAT);
    }
    // Who goes on says again who it is.
    let own = format!("\"pid\":{},", std::process::id());
    for guard in &guards {
        until("it is written again", || {
            let data = String::from_utf8(raw.data(guard.node_path()).unwrap()).unwrap();
            (data.contains(&own) && data.contains("\"revoked\":true")).then_some(())
        })
        .await;
        assert!(guard.is_valid() && guard.is_revoked());
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(traffic);
    raw.close().unwrap();
    bed.end().await;
}
