//! Releases and nested calls, on a busy day: for locks of every kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use zklock::blocking::block_on;
use zklock::{
    GuardView, Handoffs, LockError, LockOptions, StopAt, ZkLockTemplate, carry, current,
    is_held_in_scope,
};
use zklock_test_support::{BOUND, Control};

use crate::bed::{Bed, TICK, soon, until};
use crate::kinds::{Held, KINDS, Kind, Wait, all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_comes_back_when_the_node_is_gone_also_after_an_outage() {
    let bed = Bed::shared("release");
    let proxy = bed.proxy();
    let (session, other) = (bed.session_through(&proxy).await, bed.session().await);
    let busy = bed.busy_while_broken(&[&session, &other]).await;
    for kind in KINDS {
        kind.acquire(&session).await.release().await.unwrap();
        let next = kind.rival().take(&other, LockOptions::default(), Wait::Once).await;
        next.unwrap_or_else(|error| panic!("{kind:?}: {error}")).release().await.unwrap();
    }
    let held = all(&session, LockOptions::default()).await;
    proxy.refuse(true);
    proxy.cut_reset();
    let releasing = held.into_iter().map(|(kind, held)| (kind, tokio::spawn(held.release())));
    let mut releasing: Vec<_> = releasing.collect();
    tokio::time::sleep(5 * BOUND).await;
    for (kind, releasing) in &releasing {
        assert!(!releasing.is_finished(), "{kind:?} is still there, and its release is back");
    }
    // Who does not wait for it leaves it to the background.
    let (given_up, release) = releasing.remove(0);
    release.abort();
    assert!(release.await.unwrap_err().is_cancelled());
    proxy.refuse(false);
    for (kind, releasing) in releasing {
        soon("the release", releasing).await.unwrap().unwrap();
        let next = kind.rival().take(&other, LockOptions::default(), Wait::Once).await;
        next.unwrap_or_else(|error| panic!("{kind:?}: {error}")).release().await.unwrap();
    }
    soon("the lock", given_up.rival().acquire(&other)).await.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// On a thread: readers come in, and writers when it lets go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_on_a_thread_steps_down_before_those_who_wait() {
    let bed = Bed::shared("blocking-downgrade");
    let (session, other) = (bed.session().await, bed.session().await);
    let (writes, reads) = (session.rw_lock("a").unwrap(), other.rw_lock("a").unwrap());
    let writing = spawn_blocking(move || writes.blocking_write().unwrap()).await.unwrap();
    let reader = reads.clone();
    let waiting = spawn_blocking(move || reader.blocking_read().unwrap());
    bed.until_nodes("a", 2).await;
    let stepped_down = spawn_blocking(move || writing.blocking_downgrade().unwrap());
    let reading = soon("the downgrade", stepped_down).await.unwrap();
    let beside = soon("the reader", waiting).await.unwrap();
    assert!(reading.is_valid() && beside.is_valid());
    let refused = spawn_blocking(move || reads.blocking_try_write().map(drop)).await.unwrap();
    assert!(refused.unwrap_err().is_busy());
    spawn_blocking(move || reading.blocking_release().and(beside.blocking_release()))
        .await
        .unwrap()
        .unwrap();
    soon("the writer", other.rw_lock("a").unwrap().write()).await.unwrap().release().await.unwrap();
    bed.end().await;
}

/// Released while nothing is answered, and nobody says that the connection is gone. Of those who know
/// by then that their lock is lost, and of those who do not.
async fn released_in_silence(root: &str, release: impl Fn(Held) -> JoinHandle<(bool, Instant)>) {
    const T: Duration = Duration::from_secs(6);
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).tick_time(TICK);
    let session = bed.adopt(builder.connect().await.unwrap());
    let other = bed.session().await;
    let busy = bed.busy_while_broken(&[&session]).await;
    for after in [Duration::ZERO, 5 * T / 6] {
        let held = all(&session, LockOptions::default()).await;
        let control = Control::of(bed.server());
        proxy.black_hole(true);
        let start = Instant::now();
        tokio::time::sleep(after).await;
        let mut releasing = Vec::new();
        for (kind, held) in held {
            let valid = held.is_valid();
            releasing.push((kind, valid, release(held)));
        }
        for (kind, valid, releasing) in releasing {
            let (released, at) = soon("the release", releasing).await.unwrap();
            // A node that is looked at before it is deleted may never be sent its deletion.
            let gives_up = if kind == Kind::Exclusive { T / 2 } else { Duration::ZERO };
            let (took, promised) = (at - start, after + T + 2 * TICK + gives_up);
            control.within(&format!("{kind:?} released after {after:?}"), took, promised);
            assert!(took >= T, "{kind:?}: the server may still have it after {took:?}");
            assert_eq!(released, valid, "{kind:?}");
            soon("the next", kind.rival().acquire(&other)).await.release().await.unwrap();
        }
        proxy.black_hole(false);
        until("it is connected", || session.is_ready().then_some(())).await;
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_silence_a_release_comes_back_when_the_server_has_ended_the_session() {
    let release =
        |held: Held| tokio::spawn(async move { (held.release().await.is_ok(), Instant::now()) });
    released_in_silence("release-silence", release).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_silence_a_blocking_release_comes_back_when_the_server_has_ended_the_session() {
    let release =
        |held: Held| spawn_blocking(move || (held.blocking_release().is_ok(), Instant::now()));
    released_in_silence("release-silence-blocking", release).await;
}

/// What is read before a deletion is not answered, until the client gives the connection up. And how long the
/// server keeps a session, a client that does not know its tick must guess.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_silence_a_release_that_reads_first_or_knows_no_tick_comes_back_in_time() {
    const T: Duration = Duration::from_secs(6);
    const MOMENT: Duration = Duration::from_millis(1);
    let bed = Bed::shared("release-silence-longer");
    let proxy = bed.proxy();
    let builder = || bed.builder_at(&proxy.addr()).session_timeout(T);
    let session = bed.adopt(builder().tick_time(TICK).connect().await.unwrap());
    let untold = bed.adopt(builder().connect().await.unwrap());
    let other = bed.session().await;
    let busy = bed.busy_while_broken(&[&session, &untold]).await;
    let (options, reads) = (LockOptions::default(), T + 2 * TICK + T / 2);
    let alone = options.handoffs(Handoffs::NONE);
    let all = [
        ("delay", &session, options.lock_delay(MOMENT), reads),
        ("hold", &session, options.hold_at_least(MOMENT), reads),
        ("handoffs", &session, alone, reads),
        ("tick", &untold, options, 2 * T),
    ];
    let mut held = Vec::new();
    for (name, session, options, promised) in all {
        let mutex = session.mutex(name).unwrap().with_options(options);
        held.push((name, promised, mutex.acquire().await.unwrap()));
    }
    let mutex = session.mutex("handoffs").unwrap().with_options(alone);
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    // Until somebody waits, and the shortest hold is over.
    tokio::time::sleep(BOUND).await;
    let control = Control::of(bed.server());
    proxy.black_hole(true);
    let start = Instant::now();
    let releasing = held.into_iter().map(|(name, promised, guard)| {
        let released = async move { (guard.release().await, Instant::now()) };
        (name, promised, tokio::spawn(released))
    });
    for (name, promised, releasing) in releasing.collect::<Vec<_>>() {
        let (released, at) = soon("the release", releasing).await.unwrap();
        control.within(&format!("{name} released"), at - start, promised);
        assert!(at - start >= T, "{name}: the server may still have it");
        released.unwrap();
        let next = soon("the next", other.mutex(name).unwrap().acquire()).await.unwrap();
        next.release().await.unwrap();
    }
    proxy.black_hole(false);
    soon("who waited", waiting).await.unwrap().release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_stop_at_different_points_do_not_share_a_node() {
    let bed = Bed::shared("stop-apart");
    let session = bed.session().await;
    let busy = bed.busy(&[&session]).await;
    for kind in [Kind::Mutex, Kind::Write, Kind::Permit] {
        let held = kind.acquire(&session).await;
        let careful = LockOptions::default().stop_at(StopAt::Suspect);
        let take = |options| {
            let session = session.clone();
            tokio::spawn(async move {
                let taken = kind.take(&session, options, Wait::Forever).await.unwrap();
                let path = taken.node_path().to_owned();
                taken.release().await.unwrap();
                path
            })
        };
        let (alike, apart) = (take(LockOptions::default()), take(careful));
        let path = held.node_path().to_owned();
        tokio::time::sleep(BOUND).await;
        assert!(!alike.is_finished() && !apart.is_finished(), "{kind:?}");
        held.release().await.unwrap();
        let alike = soon("who stops alike", alike).await.unwrap();
        let apart = soon("who stops apart", apart).await.unwrap();
        assert!(apart != path && apart != alike, "{kind:?}");
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_body_take_its_lock_again_and_take_turns() {
    let bed = Bed::shared("nested");
    let session = bed.session().await;
    let busy = bed.busy(&[&session]).await;
    let mutex = ZkLockTemplate::new(session.clone());
    let write = ZkLockTemplate::new(session.clone()).write();
    for template in [mutex, write] {
        let inside = AtomicUsize::new(0);
        let once = || async {
            assert!(is_held_in_scope("nested"));
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside at once");
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            current().fencing_token()
        };
        let body = || async {
            let outer = current().fencing_token();
            // One inside the other, and several side by side.
            let nested = template.execute("nested", || template.execute("nested", once));
            assert_eq!(nested.await.unwrap().unwrap(), outer);
            let beside = || template.execute("nested", once);
            let (one, two, three) = tokio::join!(beside(), beside(), beside());
            assert_eq!([one.unwrap(), two.unwrap(), three.unwrap()], [outer; 3]);
            // A task of its own has nothing of it, unless it is carried along.
            assert!(!tokio::spawn(async { is_held_in_scope("nested") }).await.unwrap());
            assert!(tokio::spawn(carry(async { is_held_in_scope("nested") })).await.unwrap());
            let impatient = LockOptions::default().timeout(BOUND).retries(1);
            let stranger = template.clone().with_options(impatient);
            let stranger =
                tokio::spawn(async move { stranger.execute("nested", || async {}).await });
            assert!(stranger.await.unwrap().unwrap_err().is_busy());
            Ok::<_, LockError>(())
        };
        soon("the body", template.execute("nested", body)).await.unwrap().unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// Waits for the end of what a view sees, on a thread; answers when it came.
fn ends(view: GuardView) -> oneshot::Receiver<Instant> {
    let (tell, told) = oneshot::channel();
    // The runtime does not wait for it, if it never ends.
    thread::spawn(move || {
        block_on(view.lost());
        assert!(!view.is_valid());
        let _ = tell.send(Instant::now());
    });
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_views_of_a_guard_are_told_at_once_when_it_goes() {
    let bed = Bed::shared("views");
    let session = bed.session().await;
    let busy = bed.busy(&[&session]).await;
    for (kind, is_dropped) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let held = kind.acquire(&session).await;
        // A caller of this process gets the same node, where the kind hands it on.
        let waiting = kind.rival().acquiring(&session);
        let mut views = [(); 3].map(|()| ends(held.view()));
        tokio::time::sleep(BOUND / 2).await;
        assert!(views.iter_mut().all(|view| view.try_recv().is_err()), "{kind:?}");
        assert!(held.is_valid());
        let (control, start) = (Control::timers(), Instant::now());
        if is_dropped {
            drop(held);
        } else {
            tokio::spawn(held.release());
        }
        for view in views {
            let took = soon("the end", view).await.unwrap() - start;
            control.within(&format!("{kind:?}, dropped: {is_dropped}"), took, Duration::ZERO);
        }
        let next = soon("the next", waiting).await.unwrap();
        let mut view = ends(next.view());
        tokio::time::sleep(BOUND / 4).await;
        assert!(next.is_valid() && view.try_recv().is_err(), "{kind:?}");
        next.release().await.unwrap();
        soon("the end", view).await.unwrap();
    }
    drop(busy);
    bed.end().await;
}
