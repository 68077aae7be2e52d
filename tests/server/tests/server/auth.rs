//! Credentials and access control lists.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zklock::layout::Kazoo;
use zklock::{
    Acl, AclEntry, ErrorKind, Event, Observer, Permissions, SessionBuilder, SessionState,
};
use zklock_test_support::{Action, Control, CreateMode, Matcher, OpCode, RawError};

use crate::bed::{Bed, acquiring, soon, until};

const SECRET: &str = "hunter2";

fn as_user(builder: SessionBuilder, user: &str) -> SessionBuilder {
    builder.auth("digest", format!("{user}:{SECRET}"))
}

fn assert_silent(text: &str) {
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains(&format!("{:?}", SECRET.as_bytes())[1..10]), "{text}");
}

#[tokio::test]
async fn credentials_that_the_server_refuses_are_an_error_of_their_own() {
    let bed = Bed::shared("wrong-auth");
    let limit = Duration::from_secs(5);
    let builder = bed.builder().connect_timeout(limit).auth("no-such-scheme", SECRET);
    assert_silent(&format!("{builder:?}"));
    let (control, start) = (Control::of(bed.server()), Instant::now());
    let error = builder.clone().connect().await.unwrap_err();
    // Whether the server serves, the session, and the credentials.
    control.within_answers("refused credentials", start.elapsed(), Duration::ZERO, 3);
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unauthorized, "1015"), "{error}");
    assert!(format!("{error:#}").contains("refused the credentials"), "{error}");
    assert!(error.is_permanent());
    assert_silent(&format!("{error} {error:?}"));
    // And to who acquires without having waited for the connection.
    let session = builder.open().unwrap();
    let error = soon("an error", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert_silent(&format!("{error} {error:?} {session:?}"));
    session.close().await;
    bed.end().await;
}

#[tokio::test]
async fn what_belongs_to_its_creator_shuts_everybody_else_out() {
    let bed = Bed::shared("creator-all");
    let private = bed.builder().acl(Acl::CreatorAll);
    let mine = bed.adopt(as_user(private.clone(), "me").connect().await.unwrap());
    let guard = mine.mutex("a").unwrap().acquire().await.unwrap();

    let strangers = [bed.builder(), as_user(private, "you")];
    let control = Control::of(bed.server());
    for stranger in strangers {
        let stranger = bed.adopt(stranger.connect().await.unwrap());
        let mutex = stranger.mutex("a").unwrap();
        for waits in [false, true] {
            let start = Instant::now();
            let refused = match waits {
                false => mutex.try_acquire().await,
                true => soon("an error", mutex.acquire()).await,
            };
            // The creation, and perhaps that of the directory.
            control.within_answers("refused", start.elapsed(), Duration::ZERO, 2);
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
            assert_eq!(error.lock_name(), Some("a"));
            assert_silent(&format!("{error} {error:?}"));
        }
        // Another lock below the same private root is none of theirs either.
        let other = stranger.mutex("b").unwrap();
        let error = soon("an error", other.acquire()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    }
    // Nor can anybody see who holds, delete the node, or get in the way, whatever client it has.
    let mut raw = bed.raw();
    let directory = bed.path("a");
    let ghost = format!("{directory}/_c_00000000-0000-0000-0000-000000000000-lock-0000000000");
    for attempt in [
        raw.data(guard.node_path()).map(drop),
        raw.children(&directory).map(drop),
        raw.set_data(guard.node_path(), b""),
        raw.delete(guard.node_path()),
        raw.delete(&directory),
        raw.create(&ghost, b"", CreateMode::Ephemeral).map(drop),
    ] {
        assert!(matches!(attempt, Err(RawError::Code(-102))), "{attempt:?}");
    }
    raw.close().unwrap();
    assert!(guard.is_valid());
    // A second session of the same user is let in.
    let again = as_user(bed.builder().acl(Acl::CreatorAll), "me");
    let again = bed.adopt(again.connect().await.unwrap());
    assert!(again.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    again.mutex("a").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[derive(Debug, Default)]
struct Stuck(Mutex<Vec<String>>);

impl Observer for Stuck {
    fn event(&self, event: &Event) {
        if let Event::StuckNode { path, .. } = event {
            self.0.lock().unwrap().push(path.clone());
        }
    }
}

/// Makes the directory of a lock in which nobody may delete a node.
async fn undeletable(bed: &Bed, lock: &str) {
    // Deleting is a right on the directory, which the first acquire makes.
    let (scheme, id) = ("world".into(), "anyone".into());
    let permissions = Permissions::READ | Permissions::CREATE;
    let acl = Acl::Custom(vec![AclEntry { scheme, id, permissions }]);
    let creator = bed.adopt(bed.builder().acl(acl).connect().await.unwrap());
    let first = creator.mutex(lock).unwrap().acquire().await.unwrap();
    // It cannot delete its node either, but closing does.
    creator.close().await;
    bed.until_contenders(lock, 0).await;
    drop(first);
}

/// `Session::state()` says whether locks can be acquired: not where new connections are refused, nor where
/// they are accepted and hear nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_used_no_more_and_cannot_be_replaced_is_not_connected() {
    for silent in [false, true] {
        let bed = Bed::shared(if silent { "retired-silent" } else { "retired" });
        let proxy = bed.proxy();
        let session = bed.session_through(&proxy).await;
        let other = soon("the lock", acquiring(&session, "b")).await.unwrap();
        undeletable(&bed, "a").await;
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        // What is connected stays connected, until it is known that the node may not be deleted.
        if silent {
            proxy.on(Matcher::request(OpCode::Connect), Action::Drop);
        } else {
            proxy.refuse(true);
        }
        let control = Control::timers();
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
        let start = Instant::now();
        proxy.black_hole(silent);
        until("it is known", || (session.state() == SessionState::Connecting).then_some(())).await;
        control.within("it is known", start.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            assert_eq!((session.state(), session.is_ready()), (SessionState::Connecting, false));
            assert!(other.is_valid(), "it is held in the old session");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        proxy.heal();
        let next = soon("the lock", acquiring(&session, "c")).await.unwrap();
        until("it is connected", || session.is_ready().then_some(())).await;
        other.release().await.unwrap();
        // With its last guard the old session goes, and says nothing any more.
        bed.until_contenders("a", 0).await;
        assert_eq!((session.state(), session.is_ready()), (SessionState::Connected, true));
        next.release().await.unwrap();
        bed.end().await;
    }
}

#[tokio::test]
async fn a_node_that_may_not_be_deleted_goes_with_its_session_and_costs_no_other_lock() {
    let bed = Bed::shared("stuck");
    let stuck = Arc::new(Stuck::default());
    let session = bed.adopt(bed.builder().observer(stuck.clone()).connect().await.unwrap());
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    undeletable(&bed, "a").await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let (node, generation) =
        (guard.node_path().to_owned(), session.zookeeper_session().unwrap().number);
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Unauthorized, Some("a")), "{error}");
    until("the observer is told", || {
        let told = stuck.0.lock().unwrap();
        (!told.is_empty()).then(|| assert_eq!(*told, std::slice::from_ref(&node)))
    })
    .await;
    // The other lock is held on, and new ones come from a fresh ZooKeeper session.
    assert!(other.is_valid());
    let next = soon("the lock", acquiring(&session, "c")).await.unwrap();
    assert_eq!(session.zookeeper_session().unwrap().number, generation + 1);
    assert_eq!(bed.contenders("a").len(), 1);
    other.release().await.unwrap();
    // With its last guard the old session goes, and the stuck node with it.
    bed.until_contenders("a", 0).await;
    next.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn an_acl_that_needs_credentials_says_so_where_there_are_none() {
    let bed = Bed::shared("invalid-acl");
    let session = bed.adopt(bed.builder().acl(Acl::CreatorAll).connect().await.unwrap());
    let error = soon("an error", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    bed.end().await;
}

/// ZooKeeper asks whether somebody may create a node before it says that the node exists.
#[tokio::test]
async fn whoever_may_create_nodes_only_within_its_root_has_locks_and_semaphores_there() {
    let bed = Bed::shared("root-within");
    let all = AclEntry { scheme: "auth".into(), id: String::new(), permissions: Permissions::ALL };
    let (scheme, id) = ("world".into(), "anyone".into());
    let others = AclEntry { scheme, id, permissions: Permissions::READ };
    let acl = Acl::Custom(vec![all, others]);
    // In kazoo's layout directories stay.
    let owner = |builder: SessionBuilder| as_user(builder, "me").driver(Kazoo::default());
    let above = bed.adopt(owner(bed.builder().acl(acl)).connect().await.unwrap());
    above.mutex("closed").unwrap().acquire().await.unwrap().release().await.unwrap();
    let within = owner(bed.builder()).root(bed.path("root"));
    let within = bed.adopt(within.connect().await.unwrap());
    within.mutex("open").unwrap().acquire().await.unwrap().release().await.unwrap();

    let servers = format!("{}{}", bed.server().addr(), bed.path("").trim_end_matches('/'));
    let session = bed.adopt(bed.builder_at(&servers).root("/root").connect().await.unwrap());
    let mutex = session.mutex("a/b").unwrap();
    soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    let kazoos = session.semaphore("b", 3).unwrap().with_driver(Kazoo::default());
    soon("a permit", kazoos.acquire()).await.unwrap().release().await.unwrap();
    let at_node = session.semaphore_with_limit_at("c", "limits/c", 3).unwrap();
    soon("a permit", at_node.acquire()).await.unwrap().release().await.unwrap();
    let mut raw = bed.raw();
    assert_eq!(raw.data(&bed.path("root/limits/c")).unwrap(), [0, 0, 0, 3]);
    // Whoever keeps the semaphore watches its limit.
    drop(at_node);
    // Above the root, nothing is allowed.
    let outside = raw.create(&bed.path("d"), b"", CreateMode::Persistent);
    assert!(matches!(outside, Err(RawError::Code(-102))), "{outside:?}");
    raw.close().unwrap();
    bed.end().await;
}
