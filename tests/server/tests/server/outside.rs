//! Nodes and directories that others delete: people, scripts, and the server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::layout::HostNodes;
use zklock::{ErrorKind, MutexGuard, Session};
use zklock_test_support::{Action, Control, Matcher, OpCode, RawError, monotonic_ns};

use crate::bed::{Bed, acquiring, soon, until};
use crate::kinds::Kind;

const SESSION_TIMEOUT: Duration = Duration::from_secs(12);

/// How many watches there are below this root.
pub(crate) fn watches(bed: &Bed) -> usize {
    let answer = bed.server().four_letter("wchp").unwrap();
    let (mut below, mut count) = (false, 0);
    for line in answer.lines() {
        match line.strip_prefix('\t') {
            Some(_) => count += usize::from(below),
            None => below = line.starts_with(&bed.path("")),
        }
    }
    count
}

/// Three in the queue, of which one is deleted by somebody else.
async fn queue_of_three(bed: &Bed, deleted: usize) -> (MutexGuard, [JoinHandle<MutexGuard>; 2]) {
    queue_of_three_within(bed, SESSION_TIMEOUT, deleted).await
}

/// The same with a session timeout.
async fn queue_of_three_within(
    bed: &Bed,
    session_timeout: Duration,
    deleted: usize,
) -> (MutexGuard, [JoinHandle<MutexGuard>; 2]) {
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bed.session_of(session_timeout).await);
    }
    let first = sessions[0].mutex("a").unwrap().acquire().await.unwrap();
    let second = acquiring(&sessions[1], "a");
    bed.until_contenders("a", 2).await;
    let third = acquiring(&sessions[2], "a");
    let queue = bed.until_contenders("a", 3).await;
    let paths: Vec<_> = queue.iter().map(|name| bed.path(&format!("a/{name}"))).collect();
    // Both watch whom they wait for, and the second its own node. The first may watch its own, too, by now.
    until("both wait", || {
        let [second, third] = [1, 2].map(|number| bed.watched_by(&sessions[number]));
        (paths[..2].iter().all(|path| second.contains(path)) && third.len() == 1).then_some(())
    })
    .await;
    let mut raw = bed.raw();
    raw.delete(&paths[deleted]).unwrap();
    raw.close().unwrap();
    (first, [second, third])
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_queues_up_again() {
    let bed = Bed::shared("waiter-deleted");
    let (first, [second, third]) = queue_of_three(&bed, 2).await;
    first.release().await.unwrap();
    let second = soon("the second", second).await.unwrap();
    assert!(!third.is_finished());
    let token = second.fencing_token();
    second.release().await.unwrap();
    let third = soon("the third", third).await.unwrap();
    assert!(third.fencing_token() > token);
    third.release().await.unwrap();
    bed.end().await;
}

/// The second watches its own node, too. The third is behind two, and looks at the queue after 5 s.
#[tokio::test]
async fn a_waiter_whose_node_is_deleted_has_another_one_in_time() {
    const T: Duration = Duration::from_secs(5);
    let bed = Bed::shared("waiter-deleted-in-time");
    for (deleted, promised) in [(1, Duration::ZERO), (2, T)] {
        let control = Control::of(bed.server());
        let (first, waiting) = queue_of_three_within(&bed, T, deleted).await;
        let start = Instant::now();
        bed.until_contenders("a", 3).await;
        // A creation, or a list before it.
        control.within_answers(&format!("{deleted} again"), start.elapsed(), promised, 2);
        first.release().await.unwrap();
        let [second, third] = waiting;
        // It has a place behind the other one now.
        let order = if deleted == 1 { [third, second] } else { [second, third] };
        for next in order {
            soon("the next", next).await.unwrap().release().await.unwrap();
        }
    }
    bed.end().await;
}

#[tokio::test]
async fn a_next_in_line_whose_node_is_deleted_does_not_enter_beside_the_one_behind_it() {
    const ROUNDS: usize = 12;
    let bed = Bed::shared("next-deleted");
    for round in 0..ROUNDS {
        let (first, [second, third]) = queue_of_three(&bed, 1).await;
        first.release().await.unwrap();
        let third = soon("the third", third).await.unwrap();
        // It has a place behind the third now, or it is inside without a node.
        until("the second queues up again", || {
            (second.is_finished() || bed.contenders("a").len() == 2).then_some(())
        })
        .await;
        assert!(!second.is_finished() && third.is_valid(), "two are inside, round {round}");
        let token = third.fencing_token();
        third.release().await.unwrap();
        let second = soon("the second", second).await.unwrap();
        assert!(second.fencing_token() > token);
        second.release().await.unwrap();
    }
    bed.end().await;
}

/// The same of locks of other kinds, on a busy day: of writers behind a reader as well, and of a reader
/// behind a writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_in_line_of_any_kind_does_not_enter_without_its_node() {
    let bed = Bed::shared("next-deleted-kinds");
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(bed.session_of(SESSION_TIMEOUT).await);
    }
    let busy = bed.busy(&[&sessions[1], &sessions[2]]).await;
    let (read, write) = (Kind::Read, Kind::WriteThere);
    let of_one = [Kind::Mutex, Kind::Fair, Kind::Write, Kind::Multi].map(|kind| [kind; 3]);
    let queues = of_one.into_iter().chain([[read, write, write], [write, read, write]]);
    for (round, kinds) in queues.flat_map(|kinds| [kinds; 3]).enumerate() {
        let first = kinds[0].acquire(&sessions[0]).await;
        let directory = first.node_path().rsplit_once('/').unwrap().0.to_owned();
        let queue = || bed.below(&directory);
        let mut waiting = Vec::new();
        for (kind, session) in kinds.into_iter().zip(&sessions).skip(1) {
            waiting.push(kind.acquiring(session));
            let count = waiting.len() + 1;
            until("it queues up", || (queue().len() == count).then_some(())).await;
            if count == 2 {
                let watches = || bed.is_watched_beside(&sessions[0], first.node_path());
                until(&format!("it watches: {kinds:?}"), || watches().then_some(())).await;
            }
        }
        let (third, second) = (waiting.pop().unwrap(), waiting.pop().unwrap());
        let deleted = queue()
            .into_iter()
            .filter(|path| path != first.node_path())
            .min_by_key(|path| path[path.len() - 10..].to_owned());
        bed.delete(&deleted.unwrap());
        first.release().await.unwrap();
        let third = soon("the third", third).await.unwrap();
        until("the second queues up again", || {
            (second.is_finished() || queue().len() == 2).then_some(())
        })
        .await;
        assert!(!second.is_finished() && third.is_valid(), "two are inside: {kinds:?}, {round}");
        third.release().await.unwrap();
        soon("the second", second).await.unwrap().release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// What a server tells after a reconnect comes in no order: the deletion of the one ahead may be
/// told before that of the own node.
#[tokio::test]
async fn a_next_in_line_that_was_cut_off_does_not_enter_without_its_node() {
    let bed = Bed::shared("next-cut-off");
    let proxy = bed.proxy();
    let (one, two) = (bed.session().await, bed.session_through(&proxy).await);
    let three = bed.session().await;
    for round in 0..8 {
        let first = one.mutex("a").unwrap().acquire().await.unwrap();
        let second = acquiring(&two, "a");
        let waiting = bed.until_contenders("a", 2).await;
        until("it watches both", || (bed.watched_by(&two).len() == 2).then_some(())).await;
        let third = acquiring(&three, "a");
        bed.until_contenders("a", 3).await;
        proxy.refuse(true);
        proxy.cut_fin();
        let mut raw = bed.raw();
        raw.delete(&bed.path(&format!("a/{}", waiting[1]))).unwrap();
        raw.close().unwrap();
        first.release().await.unwrap();
        let third = soon("the third", third).await.unwrap();
        proxy.heal();
        until("the second queues up again", || {
            (second.is_finished() || bed.contenders("a").len() == 2).then_some(())
        })
        .await;
        assert!(!second.is_finished() && third.is_valid(), "two are inside, round {round}");
        third.release().await.unwrap();
        soon("the second", second).await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn a_directory_that_was_reaped_comes_back_with_greater_tokens() {
    let bed = Bed::shared("reaped");
    let session = bed.session().await;
    let mutex = session.mutex("a/b").unwrap();
    let mut raw = bed.raw();
    let mut last = None;
    for _ in 0..2 {
        let guard = mutex.acquire().await.unwrap();
        assert!(guard.node_path().ends_with("-lock-0000000000"), "{}", guard.node_path());
        assert!(last < Some(guard.fencing_token()));
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
        until("everything is reaped", || (!raw.exists("/reaped", false).unwrap()).then_some(()))
            .await;
    }
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_directory_reaped_between_its_making_and_the_node_is_made_again() {
    let bed = Bed::shared("reaped-between");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let mut raw = bed.raw();
    let creation = || Matcher::request(OpCode::Create2).path("/a/_c_").first(1);
    // The first is refused because nobody has used this lock yet.
    let mut held = proxy.on(creation(), Action::Hold);
    let acquiring = acquiring(&session, "a");
    for made_before in [false, true, true, true] {
        until("the creation is sent", || (held.hits() == 1).then_some(())).await;
        assert_eq!(raw.delete(&bed.path("a")).is_ok(), made_before);
        let next = proxy.on(creation(), Action::Hold);
        held.release();
        held = next;
    }
    held.release();
    soon("the lock", acquiring).await.unwrap().release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_that_vanish_all_the_time_do_not_hurt() {
    const ENOUGH: usize = 10;
    let bed = Bed::shared("vanishing");
    let reaped = Arc::new(AtomicUsize::new(0));
    let reaping = std::thread::spawn({
        let (mut raw, reaped) = (bed.raw(), reaped.clone());
        let directories = [bed.path("a/b"), bed.path("a")];
        move || {
            while reaped.load(Ordering::Relaxed) < ENOUGH {
                for directory in &directories {
                    match raw.delete(directory) {
                        Ok(()) => drop(reaped.fetch_add(1, Ordering::Relaxed)),
                        Err(RawError::Code(-101 | -111)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                // Often enough to hit every gap, and not so often that an acquire gives up.
                std::thread::sleep(Duration::from_millis(5 + monotonic_ns() % 30));
            }
            raw.close().unwrap();
        }
    });
    let (mut last, mut acquired) = (None, 0);
    for session in bed.sessions(2).await.iter().cycle() {
        let guard = soon("the lock", session.mutex("a/b").unwrap().acquire()).await.unwrap();
        assert!(last < Some(guard.fencing_token()));
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
        acquired += 1;
        if reaped.load(Ordering::Relaxed) >= ENOUGH {
            break;
        }
    }
    reaping.join().unwrap();
    println!("{acquired} acquires while {ENOUGH} directories were removed under them");
    bed.end().await;
}

/// Whoever is inside since then was there before the reader's node, which no heartbeat misses.
#[tokio::test]
async fn a_writer_whose_node_is_deleted_does_not_step_down_beside_the_next_one() {
    let bed = Bed::shared("deleted-stepping-down");
    let (session, other) = (bed.session().await, bed.session().await);
    for layout in [None, Some(HostNodes::here())] {
        let of = |session: &Session, name: &str| {
            let lock = session.rw_lock(name).unwrap();
            layout.clone().map_or(lock.clone(), |layout| lock.with_driver(layout))
        };
        let name = if layout.is_some() { "host" } else { "a" };
        let writing = soon("the lock", of(&session, name).write()).await.unwrap();
        let next = of(&other, name);
        let waiting = tokio::spawn(async move { next.write().await.unwrap() });
        bed.until_nodes(name, 2).await;
        bed.delete(writing.node_path());
        let next = soon("the next", waiting).await.unwrap();
        let refused = soon("its end", writing.downgrade()).await.unwrap_err();
        assert_eq!(refused.error().kind(), ErrorKind::Lost, "{name}");
        // Nothing is nested in what it has left.
        let refused = soon("the same", refused.into_guard().downgrade()).await.unwrap_err();
        assert_eq!(refused.error().kind(), ErrorKind::Lost, "{name}");
        drop(refused);
        assert!(next.is_valid());
        bed.until_nodes(name, 1).await;
        next.release().await.unwrap();
    }
    bed.end().await;
}
