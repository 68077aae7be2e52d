//! SASL with DIGEST-MD5.

use std::time::Duration;

use zklock::{Acl, ErrorKind, LockOptions, Sasl, Session, SessionBuilder};
use zklock_test_support::{RawClient, ZooKeeper};

const SECRET: &str = "hunter2";

fn server() -> ZooKeeper {
    ZooKeeper::builder().sasl(&[("orders", SECRET), ("billing", "swordfish")]).start()
}

fn user(server: &ZooKeeper, name: &str, password: &str) -> SessionBuilder {
    let builder = Session::builder(server.addr()).connect_timeout(Duration::from_secs(20));
    builder.sasl(Sasl::digest_md5(name, password))
}

#[tokio::test]
async fn a_user_of_sasl_has_locks_of_its_own() {
    let server = server();
    let mine = user(&server, "orders", SECRET).acl(Acl::CreatorAll).connect().await.unwrap();
    let guard = mine.mutex("a").unwrap().acquire().await.unwrap();
    let other = user(&server, "billing", "swordfish").connect().await.unwrap();
    let error = other.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    // A second session of the same user is let in, and waits like any other.
    let again = user(&server, "orders", SECRET).acl(Acl::CreatorAll).connect().await.unwrap();
    assert!(again.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    again.mutex("a").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    for session in [mine, other, again] {
        session.close().await;
    }
}

#[tokio::test]
async fn a_session_of_a_user_comes_back_after_a_restart() {
    let server = server();
    let builder = user(&server, "orders", SECRET).session_timeout(Duration::from_secs(50));
    let session = builder.acl(Acl::CreatorAll).connect().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let before = session.zookeeper_session();
    server.restart();
    guard.release().await.unwrap();
    assert_eq!(session.zookeeper_session(), before);
    session.close().await;
}

/// The client library sends its watches before SASL has come to its end, and the server would end the session.
#[tokio::test]
async fn a_holder_and_a_waiter_of_a_user_outlive_a_restart() {
    let server = server();
    let user = || {
        let builder = user(&server, "orders", SECRET).session_timeout(Duration::from_secs(50));
        builder.tick_time(Duration::from_secs(2)).acl(Acl::CreatorAll)
    };
    let mine = user().connect().await.unwrap();
    let options = LockOptions::new().revocable(true);
    let guard = mine.mutex("a").unwrap().with_options(options).acquire().await.unwrap();
    let other = user().connect().await.unwrap();
    let waiting = other.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    let queued = async || mine.site("a").unwrap().contenders().await.unwrap().len() == 2;
    while !queued().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = [&mine, &other].map(Session::zookeeper_session);
    server.restart();
    // Both are connected again.
    assert!(queued().await);
    other.site("a").unwrap().contenders().await.unwrap();
    assert_eq!([&mine, &other].map(Session::zookeeper_session), before);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    for session in [mine, other] {
        session.close().await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_an_error_of_its_own_and_is_not_shown() {
    let server = server();
    let builder = user(&server, "orders", "correct horse");
    let error = builder.clone().connect().await.unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    let sasl = Sasl::digest_md5("orders", "correct horse");
    let text = format!("{error} {error:?} {builder:?} {sasl:?}");
    assert!(text.contains("orders") && !text.contains("correct horse"), "{text}");
    // And who says nothing is not let in either.
    let nobody = Session::builder(server.addr()).connect_timeout(Duration::from_secs(3));
    let error = nobody.connect().await.unwrap_err();
    println!("{error}");
    assert!(!error.is_busy(), "{error}");
    let raw = RawClient::connect(&server.addr(), Duration::from_secs(10));
    assert!(raw.and_then(|mut raw| raw.children("/")).is_err());
}
