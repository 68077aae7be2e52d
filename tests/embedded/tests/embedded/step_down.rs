//! A writer that is downgraded where something else has the name that the reader's node needs.

use std::time::Duration;

use zklock::driver::LockDriver;
use zklock::layout::{HostNodes, ReadWriteNodes};
use zklock::{Embedded, ErrorKind};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{client, contenders, store};

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The directory of a lock below has the name; or a node of a stranger, whose session lives.
async fn gives_the_writer_back(driver: impl LockDriver + Clone, name: &str) {
    let reader = format!("/zklock/a/{name}0000000001");
    for is_directory in [true, false] {
        let (store, session) = store();
        let (peer, path) = (client(&store).await, reader.as_str());
        if is_directory {
            let below = session.mutex(&path["/zklock/".len()..]).unwrap();
            below.acquire().await.unwrap().release().await.unwrap();
        } else {
            for path in ["/zklock", "/zklock/a"] {
                peer.create(path, b"", NodeKind::Persistent).await.unwrap();
            }
            peer.create(path, b"", NodeKind::Ephemeral).await.unwrap();
        }
        let lock = session.rw_lock("a").unwrap().with_driver(driver.clone());
        let beside = session.mutex("b").unwrap().acquire().await.unwrap();
        let writing = lock.write().await.unwrap();
        assert!(writing.node_path().ends_with("0000000001"), "{}", writing.node_path());
        let (token, node) = (writing.fencing_token(), writing.node_path().to_owned());
        let refused = writing.downgrade().await.unwrap_err();
        assert_eq!(refused.error().kind(), ErrorKind::InvalidName, "{refused}");
        assert!(format!("{:#}", refused.error()).contains(path), "{:#}", refused.error());
        let writing = refused.into_guard();
        settle().await;
        assert!(writing.is_valid() && writing.fencing_token() == token);
        assert!(beside.is_valid(), "the other lock is lost as well");
        assert_eq!(session.zookeeper_session().map(|one| one.number), Some(1));
        assert!(is_there(&store, path).await && is_there(&store, &node).await);
        // Once the name is free, it can step down.
        peer.delete(path).await.unwrap();
        let reading = writing.downgrade().await.unwrap();
        reading.release().await.unwrap();
        beside.release().await.unwrap();
        assert_eq!(contenders(&store, "/zklock/a").await, [""; 0]);
    }
}

async fn is_there(store: &Embedded, path: &str) -> bool {
    client(store).await.get(path).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_step_down_to_the_name_of_another_lock_gives_the_writer_back_and_costs_no_lock() {
    gives_the_writer_back(ReadWriteNodes, "read-node").await;
    gives_the_writer_back(HostNodes::of("h"), "h-R-").await;
}

/// What is there is no attempt of its own in another session: that would be ephemeral.
#[tokio::test(start_paused = true)]
async fn a_step_down_in_doubt_to_the_name_of_another_lock_costs_no_lock_either() {
    let (store, session) = store();
    let path = "/zklock/a/read-node0000000001";
    let below = session.mutex(&path["/zklock/".len()..]).unwrap();
    below.acquire().await.unwrap().release().await.unwrap();
    let lock = session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
    let beside = session.mutex("b").unwrap().acquire().await.unwrap();
    let writing = lock.write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::lose_request().on(Op::Create).path("read-node").times(3));
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::InvalidName, "{refused}");
    assert!(refused.into_guard().is_valid() && beside.is_valid());
}

/// The reader's node is made, and the writer's may not be checked.
#[tokio::test(start_paused = true)]
async fn a_step_down_whose_writer_may_not_be_checked_gives_it_back() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    let refused = RequestError::Multi { index: 0, error: Box::new(RequestError::NoAuth) };
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(refused).on(Op::Multi).path("__WRIT__").times(1));
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unauthorized, "{refused}");
    assert!(format!("{:#}", refused.error()).contains("to check the writer's"), "{refused}");
    settle().await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1, "the reader's node stays behind");
    assert!(refused.into_guard().is_valid());
}
