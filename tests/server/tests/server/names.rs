//! Names that must never reach a server, and names that must.

use zklock::layout::Numbered;
use zklock::{ErrorKind, LockName};

use crate::bed::{Bed, soon};

#[tokio::test]
async fn bad_names_never_reach_the_server() {
    let bed = Bed::shared("bad-names");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let before = proxy.requests_total();
    let long = "x".repeat(10 << 10);
    for name in ["", "/", "a//b", "a/", "/a", ".", "..", "a/../b", "a/./b", "a\0b", &long] {
        let error = session.mutex(name).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidName, "1017"), "{error}");
        assert!(!format!("{error:#}").is_empty() && format!("{error:#}").len() < 500, "{error}");
    }
    assert_eq!(proxy.requests_total(), before);
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    bed.end().await;
}

#[tokio::test]
async fn any_value_is_one_segment_that_the_server_takes() {
    let bed = Bed::shared("values");
    let session = bed.session().await;
    let odd = ["..", ".", "a/b", "a\0b", "zookeeper", "größe", "命", "😀", "\u{fffe}", "~", " "];
    let mut held = Vec::new();
    for value in odd {
        let name = LockName::build().text("orders/").value(&value).finish().unwrap();
        let guard = session.mutex(name.as_str()).unwrap().acquire().await.unwrap();
        assert_eq!(guard.node_path().matches('/').count(), 4, "{}", guard.node_path());
        held.push(guard);
    }
    let mut raw = bed.raw();
    assert_eq!(raw.children(&bed.path("orders")).unwrap().len(), odd.len());
    raw.close().unwrap();
    for guard in held {
        guard.release().await.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn a_root_that_is_an_ephemeral_node_is_said_to_be_one() {
    let bed = Bed::shared("ephemeral-root");
    let mut raw = bed.raw();
    let kind = zklock_test_support::CreateMode::Ephemeral;
    raw.create("/ephemeral-root", b"", kind).unwrap();
    let session = bed.session().await;
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    assert!(format!("{error:#}").contains("ephemeral"), "{error}");
    raw.close().unwrap();
    bed.end().await;
}

/// The directory of another lock has the name that the server would give next.
#[tokio::test]
async fn a_number_that_is_the_name_of_another_lock_is_skipped() {
    let bed = Bed::shared("taken-numbers");
    let session = bed.session().await;
    let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
    soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    let mut inner = Vec::new();
    for name in ["a/sub_0000000004", "a/sub_0000000005"] {
        inner.push(soon("the inner", session.mutex(name).unwrap().acquire()).await.unwrap());
    }
    let mut paths = Vec::new();
    for _ in 0..3 {
        let guard = soon("the lock", mutex.acquire()).await.unwrap();
        paths.push(guard.node_path().to_owned());
        guard.release().await.unwrap();
    }
    assert_eq!(paths, [3, 6, 7].map(|number| bed.path(&format!("a/sub_000000000{number}"))));
    drop(inner);
    bed.end().await;
}
