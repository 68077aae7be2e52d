//! Sequence numbers that are nearly used up, on a server whose counters were pushed up.

use std::time::Duration;

use zklock::{ErrorKind, Session};
use zklock_test_support::peers::{Agent, Curator, LockKind, Outcome};
use zklock_test_support::{RawClient, ZooKeeper};

const SESSION: Duration = Duration::from_secs(20);

/// The first number that is refused.
const REFUSED: i32 = i32::MAX - (1 << 20) + 1;

fn server() -> ZooKeeper {
    ZooKeeper::builder()
        .sequence("/locks/nearly", REFUSED - 2)
        .sequence("/locks/full", i32::MAX)
        .start()
}

async fn session(server: &ZooKeeper) -> Session {
    Session::builder(server.addr()).root("/locks").session_timeout(SESSION).connect().await.unwrap()
}

fn contenders(server: &ZooKeeper, path: &str) -> Vec<String> {
    let mut raw = RawClient::connect(&server.addr(), SESSION).unwrap();
    let children = raw.children(path).unwrap();
    raw.close().unwrap();
    children
}

#[tokio::test]
async fn the_last_safe_number_is_granted_and_the_next_refused_with_the_cure() {
    let server = server();
    let session = session(&server).await;
    let mutex = session.mutex("nearly").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let last = mutex.acquire().await.unwrap();
    assert!(last.node_path().ends_with(&(REFUSED - 1).to_string()), "{}", last.node_path());
    let elsewhere = self::session(&server).await;
    let error = elsewhere.mutex("nearly").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    for words in [REFUSED.to_string().as_str(), "/locks/nearly", "delete the empty node"] {
        assert!(format!("{error:#}").contains(words), "{error}");
    }
    // It costs the holder nothing, and leaves nothing behind.
    assert!(last.is_valid());
    last.release().await.unwrap();
    while !contenders(&server, "/locks/nearly").is_empty() {
        tokio::task::yield_now().await;
    }
    // The cure.
    let mut raw = RawClient::connect(&server.addr(), SESSION).unwrap();
    raw.delete("/locks/nearly").unwrap();
    raw.close().unwrap();
    let first = mutex.acquire().await.unwrap();
    assert!(first.node_path().ends_with("-0000000000"), "{}", first.node_path());
    first.release().await.unwrap();
    session.close().await;
    elsewhere.close().await;
}

/// The server gives the last number again and again. Among equal numbers Curator's order is that of
/// the server's list, and a newcomer may be before the holder.
#[tokio::test]
async fn past_the_end_curator_grants_twice_where_we_refuse() {
    let server = server();
    let curator = Curator::compile();
    let [one, other] = [(); 2].map(|()| curator.agent(&server.addr(), SESSION));
    let path = "/locks/full";
    let try_once = |agent: &Agent| match agent.acquire(LockKind::Mutex, path, Some(Duration::ZERO))
    {
        Outcome::Held(grant) => Some(grant),
        _ => None,
    };
    // Where a holder's name lies in the list is chance: before one that lies in front nobody comes.
    let granted_twice = || {
        let held = try_once(&one).expect("nobody else is there");
        let twice = (0..20).find_map(|_| try_once(&other));
        if twice.is_none() {
            one.release(&held).unwrap();
        }
        Some((held, twice?))
    };
    let (held, twice) = (0..20).find_map(|_| granted_twice()).expect("one of 400 names is before");
    for grant in [&held, &twice] {
        assert!(grant.node.ends_with("-2147483647"), "{}", grant.node);
    }
    assert_ne!(twice.node, held.node);
    let both = contenders(&server, path);
    assert_eq!(both.len(), 2, "{both:?}");
    let session = session(&server).await;
    let error = session.mutex("full").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    while contenders(&server, path).len() > 2 {
        tokio::task::yield_now().await;
    }
    for (agent, grant) in [(&one, held), (&other, twice)] {
        agent.release(&grant).unwrap();
    }
    session.close().await;
}
