//! Directories that were made for an acquire which was given up. ZooKeeper removes a container only if
//! it had a child once.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock_test_support::{Action, CreateMode, Cut, Matcher, OpCode, RawClient};

use crate::bed::{Bed, PATIENCE, acquiring, soon, until};
use crate::kinds::{KINDS, Kind};

/// Waits until the root of a bed is gone: the server removes those that were used.
async fn nothing_is_left(bed: &Bed) {
    let (mut raw, root) = (bed.raw(), bed.path(""));
    let root = root.trim_end_matches('/');
    let limit = Instant::now() + PATIENCE;
    while raw.exists(root, false).unwrap() {
        assert!(Instant::now() < limit, "left after {PATIENCE:?}: {:?}", all_below(&mut raw, root));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    raw.close().unwrap();
}

/// A node, and all below it.
fn all_below(raw: &mut RawClient, path: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    for child in raw.children(path).unwrap_or_default() {
        all.extend(all_below(raw, &format!("{path}/{child}")));
    }
    all
}

/// Given up at each answer on the way to a lock that nobody has used yet; answers at how many.
async fn given_up_at_each_answer(kind: Kind) -> u64 {
    let bed = Bed::shared(&format!("given-up-{}", kind.name()));
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let answers = Matcher::reply(OpCode::CreateContainer).or(OpCode::Create2);
    let mut given_up = 0;
    loop {
        let answer = proxy.on(answers.clone().nth(given_up + 1), Action::Hold);
        let acquired = kind.acquiring(&session);
        until("it is answered", || (answer.hits() == 1 || acquired.is_finished()).then_some(()))
            .await;
        acquired.abort();
        let done = acquired.await.is_ok();
        answer.release();
        nothing_is_left(&bed).await;
        if done {
            break;
        }
        given_up += 1;
    }
    bed.end().await;
    given_up
}

/// Side by side, because the server removes what was used once per second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_given_up_leaves_no_directory() {
    // Those whose only node is made below a directory that stays have nothing to remove.
    let kinds = KINDS.into_iter().filter(|kind| *kind != Kind::Exclusive);
    let all: Vec<_> =
        kinds.map(|kind| (kind, tokio::spawn(given_up_at_each_answer(kind)))).collect();
    for (kind, done) in all {
        let given_up = done.await.unwrap();
        println!("{kind:?}: given up at {given_up} answers");
        // The node, its directories from the deepest up and down again, and the node. Permits have two
        // directories with nodes in them, and a multi-lock two locks.
        let least = match kind {
            Kind::Permit | Kind::Permits | Kind::Multi => 10,
            _ => 5,
        };
        assert!(given_up >= least, "{kind:?}: {given_up}");
    }
}

/// The answer to the making of a directory is lost alone, and the second one says that it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_given_up_leaves_no_directory_whose_first_answer_was_lost() {
    const THERE: i32 = -110;
    let bed = Bed::shared("given-up-in-doubt");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let made = Matcher::reply(OpCode::CreateContainer);
    // The root, and the directory of the lock.
    for number in [1, 2] {
        let lost = proxy.on(made.clone().err(0).nth(number), Action::Drop);
        let second = proxy.on(made.clone().err(THERE), Action::Hold);
        let given_up = acquiring(&session, "a");
        until("it asks again", || (second.hits() > 0).then_some(())).await;
        assert_eq!(lost.hits(), 1);
        // What comes next is not made.
        let next = Matcher::request(OpCode::CreateContainer).or(OpCode::Create2);
        let next = proxy.on(next, Action::Drop);
        second.release();
        until("it goes on", || (next.hits() > 0).then_some(())).await;
        given_up.abort();
        assert!(given_up.await.is_err());
        proxy.heal();
        nothing_is_left(&bed).await;
    }
    bed.end().await;
}

/// Whose it is cannot be told after a doubtful making. ZooKeeper removes empty directories, too.
#[tokio::test]
async fn a_directory_of_another_that_is_taken_for_ours_is_made_again() {
    let bed = Bed::shared("whose");
    let (ours, theirs) = (bed.proxy(), bed.proxy());
    let our_session = bed.session_through(&ours).await;
    let their_session = bed.session_through(&theirs).await;
    let (mut raw, path) = (bed.raw(), bed.path("a"));
    raw.create(path.rsplit_once('/').unwrap().0, b"", CreateMode::Persistent).unwrap();
    let making = || Matcher::request(OpCode::CreateContainer).first(1);
    // Not made, but that is not known; the next try comes after theirs.
    let lost = ours.on(making(), Action::DropAndCut(Cut::Fin));
    let next = ours.on(making(), Action::Hold);
    let given_up = acquiring(&our_session, "a");
    until("it tries again", || (next.hits() == 1).then_some(())).await;
    assert_eq!(lost.hits(), 1);
    let used = theirs.on(Matcher::request(OpCode::Create2).nth(2), Action::Hold);
    let acquired = acquiring(&their_session, "a");
    until("theirs is there", || (used.hits() == 1).then_some(())).await;
    assert!(raw.exists(&path, false).unwrap());
    let node = ours.on(Matcher::request(OpCode::Create2).first(1), Action::Drop);
    next.release();
    until("ours goes on", || (node.hits() == 1).then_some(())).await;
    given_up.abort();
    until("it is taken for ours", || (!raw.exists(&path, false).unwrap()).then_some(())).await;
    used.release();
    soon("the lock", acquired).await.unwrap().release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

/// The directory of one lock lies in that of another, made by whoever comes first, and each goes when
/// nobody uses it or what is below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_locks_below_locks_nothing_is_left() {
    const NAMES: [&str; 7] =
        ["a", "a/0", "a/-5", "a/0/0", "a/x-lock-0000000000", "a/x-lock-0000000000/b", "a/007"];
    let bed = Bed::shared("below-locks");
    let sessions = bed.sessions(3).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    let mut acquiring = JoinSet::new();
    for number in 0..200 {
        let mutex = sessions[number % sessions.len()].mutex(NAMES[number % NAMES.len()]).unwrap();
        // Every other one waits for as long as it takes.
        let limit = match number % 2 {
            0 => Duration::from_secs(60),
            _ => Duration::from_micros(100 * (1 + number as u64 % 100)),
        };
        acquiring.spawn(async move {
            let held = tokio::time::timeout(limit, mutex.acquire()).await;
            held.is_ok_and(|held| held.is_ok()) || number % 2 == 1
        });
        if acquiring.len() == 12 {
            assert!(acquiring.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(done) = acquiring.join_next().await {
        assert!(done.unwrap());
    }
    drop(busy);
    nothing_is_left(&bed).await;
    bed.end().await;
}

/// Most of these are given up before their node is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_six_hundred_names_used_once_and_given_up_nothing_is_left() {
    const NAMES: u64 = 600;
    // Each of these waits for as long as it takes.
    const SURE: u64 = 6;
    // So few at a time that some come as far as to make a directory.
    const AT_ONCE: usize = 6;
    let bed = Bed::shared("names-used-once");
    let sessions = bed.sessions(3).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    let (mut acquiring, mut acquired) = (JoinSet::new(), 0_u64);
    for number in 0..NAMES {
        let session = &sessions[usize::try_from(number).unwrap() % sessions.len()];
        let mutex = session.mutex(format!("a/n{number}")).unwrap();
        let limit = match number % SURE {
            0 => Duration::from_secs(60),
            _ => Duration::from_micros(100 * (1 + number % 100)),
        };
        acquiring.spawn(async move { tokio::time::timeout(limit, mutex.acquire()).await.is_ok() });
        if acquiring.len() == AT_ONCE {
            acquired += u64::from(acquiring.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(done) = acquiring.join_next().await {
        acquired += u64::from(done.unwrap());
    }
    println!("{acquired} of {NAMES} acquires came through");
    assert!((NAMES / SURE..NAMES).contains(&acquired), "{acquired} of {NAMES}");
    drop(busy);
    nothing_is_left(&bed).await;
    bed.end().await;
}
