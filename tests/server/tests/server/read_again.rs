//! Who reads already reads again, though a writer of another process waits between.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use zklock::{FencingToken, Handoffs, LockOptions, RwLock, Session};

use crate::bed::{Bed, soon, until};

/// Newcomers look behind the node at once.
fn lock(session: &Session) -> RwLock {
    let bound = Handoffs::new().most(0).within(Duration::from_secs(1));
    let lock = session.rw_lock("shared").unwrap();
    lock.with_options(LockOptions::default().handoffs(bound))
}

fn waits(session: &Session, writes: bool) -> JoinHandle<FencingToken> {
    let lock = lock(session);
    tokio::spawn(async move {
        match writes {
            true => soon("to write", lock.write()).await.unwrap().fencing_token(),
            false => soon("to read", lock.read()).await.unwrap().fencing_token(),
        }
    })
}

/// Behind somebody who reads: a writer of another process, and a reader of this one.
async fn between(bed: &Bed, here: &Session, there: &Session) -> [JoinHandle<FencingToken>; 2] {
    // What was held before may still be being deleted.
    bed.until_nodes("shared", 1).await;
    let writer = waits(there, true);
    bed.until_nodes("shared", 2).await;
    let reader = waits(here, false);
    until("the reader waits", || {
        here.local_contenders().iter().any(|one| !one.holds).then_some(())
    })
    .await;
    [writer, reader]
}

async fn in_order([writer, reader]: [JoinHandle<FencingToken>; 2], last: FencingToken) {
    let wrote = writer.await.unwrap();
    assert!(wrote > last);
    assert!(reader.await.unwrap() > wrote);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_reads_again_though_a_writer_of_another_process_waits() {
    let bed = Bed::shared("read-again");
    let (here, there) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&here, &there]).await;
    let task = async {
        let first = lock(&here).read().await.unwrap();
        let waiting = between(&bed, &here, &there).await;
        let again = soon("the second read", lock(&here).read()).await.unwrap();
        assert!(again.is_valid() && again.node_path() == first.node_path());
        assert!(lock(&here).try_read().await.is_ok());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        let last = again.fencing_token();
        drop((first, again));
        in_order(waiting, last).await;
    };
    task.await;
    // The same on a thread.
    let reading = lock(&here);
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (say, said) = tokio::sync::oneshot::channel();
    let thread = spawn_blocking(move || {
        let first = reading.blocking_read().unwrap();
        say.send(()).unwrap();
        told.recv().unwrap();
        let again = reading.blocking_read_timeout(Duration::from_secs(60)).unwrap();
        assert!(again.is_valid() && again.node_path() == first.node_path());
        again.fencing_token()
    });
    said.await.unwrap();
    let waiting = between(&bed, &here, &there).await;
    tell.send(()).unwrap();
    in_order(waiting, thread.await.unwrap()).await;
    drop(busy);
    bed.end().await;
}
