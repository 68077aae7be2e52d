//! TLS with certificates on both sides.

use std::time::Duration;

use zklock::{Acl, ErrorKind, Session, SessionBuilder, Tls};
use zklock_test_support::{Certificates, CreateMode, RawClient, RawError, ZooKeeper};

/// Long enough for a busy machine, and short for who waits in vain.
const LIMIT: Duration = Duration::from_secs(20);
const IN_VAIN: Duration = Duration::from_secs(3);

fn over(server: &ZooKeeper, tls: Tls) -> SessionBuilder {
    Session::builder(server.addr()).tls(tls).connect_timeout(LIMIT)
}

fn identity(of: &Certificates, trusts: &Certificates) -> Tls {
    let trusting = Tls::new(&trusts.authority()).unwrap();
    trusting.identity(&of.client(), &of.client_key()).unwrap()
}

#[tokio::test]
async fn locks_work_over_tls_and_the_certificate_is_the_identity() {
    let certificates = Certificates::make();
    let server = ZooKeeper::builder().tls(&certificates).start();
    let tls = identity(&certificates, &certificates);
    let private = over(&server, tls).acl(Acl::CreatorAll);
    let (one, two) = (private.clone().connect().await.unwrap(), private.connect().await.unwrap());
    let guard = one.mutex("orders").unwrap().acquire().await.unwrap();
    assert!(two.mutex("orders").unwrap().try_acquire().await.unwrap_err().is_busy());

    // Who comes without a certificate, in plain text here, can neither read nor delete nor make.
    let mut stranger = RawClient::connect(&server.addr(), LIMIT).unwrap();
    let refused = |result: Result<(), RawError>| match result {
        Err(RawError::Code(code)) => assert_eq!(code, -102, "not refused as unauthorized"),
        other => panic!("{other:?}"),
    };
    refused(stranger.data(guard.node_path()).map(drop));
    refused(stranger.children("/zklock/orders").map(drop));
    refused(stranger.delete(guard.node_path()));
    refused(stranger.create("/zklock/orders/x", b"", CreateMode::Ephemeral).map(drop));

    guard.release().await.unwrap();
    two.mutex("orders").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_session_over_tls_comes_back_after_a_restart() {
    let certificates = Certificates::make();
    let server = ZooKeeper::builder().tls(&certificates).start();
    let builder = over(&server, identity(&certificates, &certificates));
    let session = builder.session_timeout(Duration::from_secs(50)).connect().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let before = session.zookeeper_session();
    server.restart();
    guard.release().await.unwrap();
    assert_eq!(session.zookeeper_session(), before);
    session.close().await;
}

#[tokio::test]
async fn certificates_are_renewed_while_a_lock_is_held() {
    let certificates = Certificates::make();
    let server = ZooKeeper::builder().tls(&certificates).start();
    let tls = identity(&certificates, &certificates);
    let builder = over(&server, tls.clone()).session_timeout(Duration::from_secs(50));
    let session = builder.connect().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let before = session.zookeeper_session();
    // Neither side trusts what the other one had.
    certificates.renew();
    tls.renew(identity(&certificates, &certificates)).unwrap();
    server.restart();
    guard.release().await.unwrap();
    assert_eq!(session.zookeeper_session(), before);
    session.close().await;
}

#[tokio::test]
async fn who_is_not_trusted_gets_no_session() {
    let (ours, others) = (Certificates::make(), Certificates::make());
    let server = ZooKeeper::builder().tls(&ours).start();
    for (what, tls) in [
        ("no certificate", Tls::new(&ours.authority()).unwrap()),
        ("a certificate of another authority", identity(&others, &ours)),
        ("a server of another authority", identity(&ours, &others)),
    ] {
        let error = over(&server, tls).connect_timeout(IN_VAIN).connect().await.unwrap_err();
        println!("{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
        let expected = format!("{} answers, but opens no session", server.addr());
        assert!(format!("{error:#}").contains(&expected), "{what}: {error}");
    }
    // A server that speaks no TLS.
    let plain = ZooKeeper::start();
    let error = over(&plain, identity(&ours, &ours)).connect_timeout(IN_VAIN).connect().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn nothing_that_can_be_printed_shows_the_key() {
    let certificates = Certificates::make();
    let key = certificates.client_key();
    let line = key.lines().nth(1).unwrap();
    let tls = identity(&certificates, &certificates);
    let trusting = Tls::new(&certificates.authority()).unwrap();
    let bad = trusting.clone().identity(&key, &key).unwrap_err();
    let worse = trusting.identity(&certificates.client(), "hunter2").unwrap_err();
    assert_eq!((bad.kind(), worse.kind()), (ErrorKind::InvalidOption, ErrorKind::InvalidOption));
    assert_eq!(Tls::new(line).unwrap_err().kind(), ErrorKind::InvalidOption);
    let builder = Session::builder("127.0.0.1:1").tls(tls.clone());
    let impatient = builder.clone().connect_timeout(Duration::from_millis(100));
    let error = impatient.connect().await.unwrap_err();
    let session = builder.clone().open().unwrap();
    for text in [
        format!("{tls:?} {builder:?} {session:?}"),
        format!("{bad} {bad:?} {worse} {worse:?} {error} {error:?}"),
    ] {
        assert!(!text.contains(line) && !text.contains("hunter2"), "{text}");
        assert!(!text.contains("48, 129"), "the key in bytes: {text}");
    }
}
