//! Connecting: what is wrong is said, each in its own words, within the connect timeout.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use zklock::{ErrorKind, LockError, Session, SessionState};
use zklock_test_support::{Control, CreateMode, Warnings, ZooKeeper};

use crate::bed::{Bed, TICK, soon, until};

const LIMIT: Duration = Duration::from_secs(1);

/// Connects in vain, and not for longer than it may.
async fn refused(servers: &str) -> LockError {
    let (control, start) = (Control::timers(), Instant::now());
    let error = Session::builder(servers).connect_timeout(LIMIT).connect().await.unwrap_err();
    control.within(servers, start.elapsed(), LIMIT);
    error
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_and_why() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    for (server, why) in [
        ("127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("no-such-host.invalid:2181", "no-such-host.invalid:2181"),
        (&silent, "did not answer"),
    ] {
        let error = refused(server).await;
        println!("{error}");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, "1013"), "{error}");
        let text = format!("{error:#}");
        assert!(text.contains(server) && text.contains(why), "{text}");
        assert!(!error.to_string().contains(server), "{error}");
        assert!(text.contains("within 1s"), "{error}");
        assert_eq!(text.contains("did not answer"), server == silent, "{error}");
        assert!(!error.is_permanent());
    }
}

#[tokio::test]
async fn of_several_servers_each_is_said_what_is_wrong_with_it() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let text = format!("{:#}", refused(&format!("127.0.0.1:1,{silent}")).await);
    assert!(text.contains("127.0.0.1:1: Connection refused"), "{text}");
    assert!(text.contains(&format!("{silent} did not answer")), "{text}");
}

/// While their credentials are being changed, servers differ. Which one is asked first is left to chance.
#[tokio::test]
async fn a_server_that_refuses_the_credentials_does_not_keep_from_those_that_know_them() {
    let closed = "zookeeper.DigestAuthenticationProvider.enabled";
    let refuses = ZooKeeper::builder().java_property(closed, "false").start();
    let bed = Bed::shared("one-refuses");
    let servers = [refuses.addr(), bed.server().addr()];
    let builder = |servers: &str| Session::builder(servers).auth("digest", "me:secret");
    let error = builder(&servers[0]).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    for _ in 0..6 {
        let session = builder(&servers.join(",")).connect().await.unwrap();
        session.close().await;
    }
    // All of them do.
    let both = [servers[0].clone(), servers[0].replace("127.0.0.1", "localhost")].join(",");
    let error = builder(&both).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    bed.end().await;
}

#[tokio::test]
async fn servers_that_are_dead_or_frozen_do_not_keep_from_the_one_that_lives() {
    let frozen = ZooKeeper::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let (frozen_at, bed) = (frozen.addr(), Bed::shared("one-of-three"));
    let said = Warnings::everywhere();
    let lives = bed.server().addr();
    frozen.pause();
    // The client goes through a list in an order of its own, and would wait for ten seconds for
    // one that is silent: often enough.
    let limit = Duration::from_secs(30);
    for round in 0..4 {
        for (one, two) in
            [(&*frozen_at, &*silent), (&frozen_at, "127.0.0.1:1"), ("127.0.0.1:1", "127.0.0.1:2")]
        {
            let start = Instant::now();
            let servers = format!("{one},{two},{lives}");
            let builder = bed.builder_at(&servers).connect_timeout(limit);
            let builder = builder.session_timeout(Duration::from_secs(60));
            let session = builder.connect().await.unwrap();
            let took = start.elapsed();
            println!("{round}: two of three dead: connected after {took:?}");
            assert!(took < Duration::from_secs(7), "{took:?}");
            session.close().await;
        }
    }
    let mut lines = said("this ZooKeeper session does not use them");
    lines.retain(|line| line.contains(&silent));
    // Once for each session that was opened without it.
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains(&frozen_at)), "{lines:#?}");
    frozen.resume();
    bed.end().await;
}

#[tokio::test]
async fn a_missing_chroot_says_what_to_do() {
    let error = refused(&format!("{}/no/such/node", ZooKeeper::shared().addr())).await;
    assert_eq!((error.kind(), error.code()), (ErrorKind::NoChroot, "1016"), "{error}");
    let says = "the chroot of the connect string does not exist: create it first";
    assert!(error.to_string().ends_with(says), "{error}");
    assert!(format!("{error:#}").ends_with(&format!("{says}: /no/such/node")), "{error:#}");
    assert!(error.is_permanent());
}

#[tokio::test]
async fn a_lock_waits_for_no_chroot() {
    // What a person must mend is told to who acquires, too, and at once.
    let servers = format!("{}/no/such/node", ZooKeeper::shared().addr());
    let (control, start) = (Control::of(ZooKeeper::shared()), Instant::now());
    let session = Session::builder(servers).open().unwrap();
    let error = soon("an error", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    // Whether the server serves, the session, the look at the chroot, and the end of the session.
    control.within_answers("no chroot", start.elapsed(), Duration::ZERO, 4);
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::NoChroot, Some("a")), "{error}");
    session.close().await;
}

#[tokio::test]
async fn a_connect_string_without_sense_never_leaves_the_process() {
    for nonsense in ["", "host:port", "zk1:2181,,zk2:2181", "zk1/a//b", "http://zk1:2181"] {
        let error = Session::builder(nonsense).open().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidOption, "1018"), "{error}");
        assert!(format!("{error:#}").contains("accepted is host:port"), "{error}");
        assert_eq!(refused(nonsense).await.kind(), ErrorKind::InvalidOption);
    }
}

#[tokio::test]
async fn dead_servers_among_live_ones_are_passed_over() {
    let bed = Bed::shared("dead-servers");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let live = bed.server().addr();
    for servers in [
        format!("127.0.0.1:1,{live}"),
        format!("{live},127.0.0.1:1"),
        format!("{silent},127.0.0.1:1,{live},127.0.0.1:2"),
    ] {
        let session = bed.adopt(bed.builder_at(&servers).connect().await.unwrap());
        drop(session.mutex("a").unwrap().acquire().await.unwrap());
    }
    bed.end().await;
}

#[tokio::test]
async fn a_chroot_is_where_everything_is() {
    let bed = Bed::shared("chroot");
    let mut raw = bed.raw();
    raw.create("/chroot", b"", CreateMode::Persistent).unwrap();
    let servers = format!("{}/chroot", bed.server().addr());
    let inside = bed.adopt(Session::builder(&servers).root("/root").connect().await.unwrap());
    let guard = inside.mutex("a/b").unwrap().acquire().await.unwrap();
    assert!(guard.node_path().starts_with("/root/a/b/_c_"), "{}", guard.node_path());
    assert_eq!(raw.children("/chroot/root/a/b").unwrap().len(), 1);
    // The same lock, seen from above.
    let above = bed
        .adopt(Session::builder(bed.server().addr()).root("/chroot/root").connect().await.unwrap());
    let mutex = above.mutex("a/b").unwrap();
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    bed.until_contenders("root/a/b", 2).await;
    guard.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn what_is_asked_for_before_the_server_is_there_comes_when_it_is() {
    let bed = Bed::own();
    bed.server().kill();
    let session = bed.adopt(bed.builder().connect_timeout(LIMIT).open().unwrap());
    let mutex = session.mutex("a").unwrap();
    let error = mutex.acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    bed.server().restart();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_session_tells_its_times_and_is_refused_where_no_lease_would_be_safe() {
    let bed = Bed::shared("timing");
    let timeout = Duration::from_secs(6);
    let builder = || bed.builder().session_timeout(timeout);
    let session = bed.adopt(builder().tick_time(TICK).connect().await.unwrap());
    let timing = session.timing().unwrap();
    assert_eq!((timing.session_timeout, timing.heartbeat), (timeout, timeout / 6));
    assert_eq!(timing.margin, timeout / 5 + TICK / 2);
    assert_eq!(timing.lease, timeout - timing.margin);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    assert!(guard.remaining() <= timing.lease);
    guard.release().await.unwrap();
    // As if the server's `minSessionTimeout` were below its tick.
    let error = builder().tick_time(timeout).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    for number in ["6s", "1.2s", "3s is half a tick", "at least 6.4"] {
        assert!(format!("{error:#}").contains(number), "{number}: {error:#}");
    }
    bed.end().await;
}

/// A round of the search for a server takes as long as connecting may.
#[tokio::test]
async fn while_the_only_server_is_down_the_state_and_the_log_say_so() {
    const T: Duration = Duration::from_secs(4);
    let (bed, said) = (Bed::own(), Warnings::everywhere());
    let builder = bed.builder().session_timeout(T).connect_timeout(LIMIT);
    let session = bed.adopt(builder.connect().await.unwrap());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let control = Control::timers();
    bed.server().kill();
    let start = Instant::now();
    until("it is suspended", || (session.state() == SessionState::Suspended).then_some(())).await;
    control.within("suspended", start.elapsed(), T / 3);
    until("it connects", || (session.state() == SessionState::Connecting).then_some(())).await;
    let took = start.elapsed();
    assert!(took >= T * 13 / 10 && !guard.is_valid(), "connecting after {took:?}");
    control.within("connecting", took, T * 15 / 10);
    tokio::time::sleep(4 * LIMIT).await;
    let most = (start.elapsed() - took).as_secs();
    let mut lines = said("no ZooKeeper session could be opened; trying again");
    lines.retain(|line| line.contains(&bed.server().addr()));
    let count = u64::try_from(lines.len()).unwrap();
    assert!((2..=most).contains(&count), "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains("Connection refused")), "{lines:#?}");
    bed.server().restart();
    until("it is connected", || (session.state() == SessionState::Connected).then_some(())).await;
    assert!(guard.release().await.unwrap_err().is_lost());
    bed.end().await;
}
