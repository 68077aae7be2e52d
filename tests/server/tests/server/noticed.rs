//! What others do to a node, and when its holder knows: for locks of every kind, on a busy day.

use std::time::{Duration, Instant};

use zklock::LockOptions;

use crate::bed::{Bed, soon, until};
use crate::bound::Control;
use crate::kinds::{Held, KINDS, Kind, Wait, all, had_by_another, lost};

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// So long that no heartbeat comes while a test looks.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_deletion_is_known_within_a_heartbeat() {
    let bed = Bed::shared("lost-deleted");
    let (holder, other) = (bed.session_of(T).await, bed.session().await);
    let busy = bed.busy(&[&holder]).await;
    let control = Control::of(&bed);
    for kind in KINDS {
        let held = kind.acquire(&holder).await;
        bed.delete(held.path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} deleted at once"), took, HEARTBEAT);
        had_by_another(kind, held, &other).await;
    }
    drop(busy);
    bed.end().await;
}

/// Waits until the holders watch their nodes.
async fn until_watched(bed: &Bed, all: &[(Kind, Held)]) {
    until("the own nodes are watched", || {
        let watched = bed.watched();
        all.iter().all(|(_, held)| watched.iter().any(|path| path == held.path())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_held_for_longer_than_a_heartbeat() {
    let bed = Bed::shared("lost-deleted-late");
    let session = bed.session_of(2 * T).await;
    let busy = bed.busy(&[&session]).await;
    let all = all(&session, LockOptions::default()).await;
    until_watched(&bed, &all).await;
    let control = Control::of(&bed);
    for (kind, held) in all {
        // At different times between two heartbeats: not every one of them is just about to come.
        tokio::time::sleep(2 * HEARTBEAT / 5).await;
        assert!(held.is_valid(), "{kind:?}");
        bed.delete(held.path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} deleted later"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_deletion_is_known_at_once_to_who_is_revocable() {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let session = bed.session_of(LONG).await;
    let busy = bed.busy(&[&session]).await;
    let control = Control::of(&bed);
    for kind in KINDS {
        let options = LockOptions::default().revocable(true);
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        bed.delete(held.path());
        let took = lost(kind, &held, Instant::now()).await;
        control.within(&format!("{kind:?} revocable and deleted"), took, Duration::ZERO);
    }
    drop(busy);
    bed.end().await;
}

/// Asks the holder of each kind to let go; it hears of it in time.
async fn wish(session_timeout: Duration, revocable: bool, promised: Duration) {
    let bed = Bed::own_with(|server| server.max_session_timeout(LONG));
    let mut raw = bed.raw();
    let session = bed.session_of(session_timeout).await;
    let busy = bed.busy(&[&session]).await;
    let control = Control::of(&bed);
    for kind in KINDS {
        let options = LockOptions::default().revocable(revocable);
        let held = kind.take(&session, options, Wait::Forever).await.unwrap();
        raw.set_data(held.path(), b"__REVOKE__").unwrap();
        let start = Instant::now();
        soon("the wish", held.revoked()).await;
        control.within(&format!("{kind:?} revoked"), start.elapsed(), promised);
        assert!(held.is_valid());
        held.release().await.unwrap();
    }
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_wish_is_heard_at_once_by_who_is_revocable() {
    wish(LONG, true, Duration::ZERO).await;
}

#[tokio::test]
async fn a_wish_is_heard_within_a_heartbeat_by_who_is_not() {
    wish(T, false, HEARTBEAT).await;
}
