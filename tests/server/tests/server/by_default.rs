//! Answers that are lost alone, while their connection lives on, of calls by the defaults: what is not answered
//! is asked for again, in time. On a busy day. `swallowed.rs` has the locks of every kind.

use std::time::{Duration, Instant};

use zklock::layout::{Kazoo, Numbered};
use zklock::{LockError, LockOptions, Session};
use zklock_test_support::{Action, Control, CreateMode, Late, Matcher, OpCode, Proxy};

use crate::bed::{Bed, acquiring, soon, until};

/// The session timeout.
const T: Duration = Duration::from_secs(10);

/// When what is not answered is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// One try.
const TRY: Duration = Duration::from_secs(2);

/// The answers that a call needs one after the other, at most: who gets a lock with a mark first finds its
/// directory missing, makes it, reads the mark and writes it.
const IN_TURN: u32 = 6;

/// A session through a proxy.
struct Client {
    session: Session,
    proxy: Proxy,
    control: Control,
}

/// Does something in a session with the defaults, on a busy day; again if the machine is too busy to measure.
async fn by_default(root: &str, work: impl AsyncFn(&Bed, &Client) -> Result<(), Late>) {
    Bed::measured(root, async |bed| {
        let proxy = bed.proxy();
        let session = bed.session_of_through(T, &proxy).await;
        let busy = bed.busy(&[&session]).await;
        let before = session.zookeeper_session();
        let client = Client { session, proxy, control: Control::of(bed.server()) };
        let done = work(&bed, &client).await;
        assert_eq!(before, client.session.zookeeper_session());
        drop(busy);
        bed.end().await;
        done.err().into_iter().collect()
    })
    .await;
}

impl Client {
    /// Does something while the next answer to an operation on this path is swallowed. It takes no longer than
    /// until that is asked for again.
    async fn without<T>(
        &self,
        opcode: OpCode,
        path: &str,
        work: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, Late> {
        let rule = self.proxy.on(Matcher::reply(opcode).path(path).first(1), Action::Drop);
        let start = Instant::now();
        let done = soon("it goes on", work).await;
        let (took, hits) = (start.elapsed(), rule.hits());
        rule.release();
        let what = format!("without an answer to {opcode:?} at {path}");
        match done {
            Ok(done) => {
                assert_eq!(hits, 1, "{what}");
                self.control.late(&what, took, AGAIN, IN_TURN).map_or(Ok(done), Err)
            }
            // Only a call whose own deadline is over is late; whatever else is refused is wrong.
            Err(error) => {
                assert!(error.is_unavailable() && took >= TRY, "{what}, {took:?}: {error:#}");
                Err(self.control.too_late(&format!("{what}: {error:#}")))
            }
        }
    }
}

#[tokio::test]
async fn a_call_with_the_default_deadline_outlives_an_answer_that_is_swallowed_alone() {
    by_default("swallowed-calls", async |bed, client| {
        let (session, path) = (&client.session, bed.path("a"));
        let mutex = session.mutex("a").unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        for opcode in [OpCode::Create2, OpCode::GetChildren] {
            let guard = client.without(opcode, &path, mutex.acquire_tries()).await?;
            assert_eq!(bed.contenders("a").len(), 1);
            client.without(OpCode::Delete, &path, guard.release()).await?;
            let guard = client.without(opcode, &path, mutex.try_acquire()).await?;
            guard.release().await.unwrap();
        }
        // The directory of a lock that nobody has used yet.
        for opcode in [OpCode::CreateContainer, OpCode::Create2] {
            let name = format!("fresh-{opcode:?}");
            let (fresh, path) = (session.mutex(&name).unwrap(), bed.path(&name));
            let guard = client.without(opcode, &path, fresh.acquire_tries()).await?;
            guard.release().await.unwrap();
        }
        let other = bed.session_through(&client.proxy).await.mutex("a").unwrap();
        let site = session.site("a").unwrap();
        let guard = mutex.acquire().await.unwrap();
        for opcode in [OpCode::GetChildren, OpCode::GetData] {
            let queue = client.without(opcode, &path, site.contenders()).await?;
            assert_eq!(queue.len(), 1, "{opcode:?}");
            // Who is in the way is said, too.
            let refused = async {
                let error = other.try_acquire().await.unwrap_err();
                if error.is_busy() { Ok(error) } else { Err(error) }
            };
            let error = client.without(opcode, &path, refused).await?;
            assert!(error.holder().is_some(), "{opcode:?}: {error:#}");
        }
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        for opcode in [OpCode::GetChildren, OpCode::SetData] {
            // One that was asked writes its node again.
            let guard = mutex.acquire().await.unwrap();
            let asked = client.without(opcode, &path, site.revoke()).await?;
            assert!(asked == 1 && guard.is_valid(), "{opcode:?}");
            guard.release().await.unwrap();
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_step_down_outlives_an_answer_that_is_swallowed_alone() {
    by_default("swallowed-downgrade", async |bed, client| {
        let (lock, path) = (client.session.rw_lock("a").unwrap(), bed.path("a"));
        for opcode in [OpCode::Create2, OpCode::Delete] {
            let writing = lock.write().await.unwrap();
            let stepping_down = async {
                let stepped_down = writing.downgrade().await;
                stepped_down.map_err(|refused| refused.error().clone())
            };
            let reading = client.without(opcode, &path, stepping_down).await?;
            assert!(reading.is_valid());
            assert_eq!(bed.contenders_by("a", "__").len(), 1, "{opcode:?}");
            reading.release().await.unwrap();
            assert!(bed.contenders_by("a", "__").is_empty(), "{opcode:?}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_mark_outlives_an_answer_that_is_swallowed_alone() {
    by_default("swallowed-mark", async |bed, client| {
        let (session, path) = (&client.session, bed.path("a"));
        session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
        let delay = LockOptions::default().lock_delay(Duration::from_secs(60));
        let hold = LockOptions::default().hold_at_least(Duration::from_millis(1));
        let both = hold.lock_delay(Duration::from_secs(60));
        // The directory `a` may be a container, and one that stays takes its place first.
        for (round, options) in [hold, delay, hold, both].into_iter().enumerate() {
            for opcode in [OpCode::GetData, OpCode::Multi] {
                let mutex = session.mutex("a").unwrap().with_options(options);
                let guard = client.without(opcode, &path, mutex.acquire_tries()).await?;
                assert_eq!(bed.contenders("a").len(), 1, "{round}: {opcode:?}");
                tokio::time::sleep(Duration::from_millis(2)).await;
                client.without(OpCode::Multi, &path, guard.release()).await?;
                assert!(bed.contenders("a").is_empty(), "{round}: {opcode:?}");
            }
        }
        Ok(())
    })
    .await;
}

/// In kazoo's layout the limit is written into an empty node, and a number is skipped that is the name of
/// another lock.
#[tokio::test]
async fn what_is_written_ahead_of_the_node_outlives_an_answer_that_is_swallowed_alone() {
    by_default("swallowed-ahead", async |bed, client| {
        // A child that keeps the directory is a permit, or counts as one number.
        ["kazoo", "numbered"].iter().for_each(|lock| bed.keep_directory(lock));
        let mut raw = bed.raw();
        for other in ["numbered/sub_0000000002", "numbered/sub_0000000002/in-use"] {
            raw.create(&bed.path(other), b"", CreateMode::Persistent).unwrap();
        }
        let semaphore = client.session.semaphore("kazoo", 2).unwrap().with_driver(Kazoo::default());
        let (path, taken) = (bed.path("kazoo"), semaphore.acquire_tries());
        let permit = client.without(OpCode::Multi, &path, taken).await?;
        assert_eq!(raw.data(&path).unwrap(), b"2");
        permit.release().await.unwrap();
        let mutex = client.session.mutex("numbered").unwrap().with_driver(Numbered::dlock());
        let (path, taken) = (bed.path("numbered"), mutex.acquire_tries());
        let guard = client.without(OpCode::Multi, &path, taken).await?;
        assert_eq!(guard.node_path(), bed.path("numbered/sub_0000000003"));
        guard.release().await.unwrap();
        raw.close().unwrap();
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_waiter_whose_watch_alone_is_swallowed_is_granted_and_leaves_no_watch() {
    by_default("watch-swallowed", async |bed, Client { session, proxy, control }| {
        let guard = bed.session().await.mutex("a").unwrap().acquire().await.unwrap();
        let node = bed.path("a/");
        let lost = Matcher::reply(OpCode::GetData).path(&node).first(1);
        let rule = proxy.on(lost, Action::Drop);
        let waiting = acquiring(session, "a");
        until("the watch is swallowed", || (rule.hits() == 1).then_some(())).await;
        let start = Instant::now();
        rule.release();
        let next = proxy.on(Matcher::request(OpCode::GetData).path(&node), Action::Pass);
        until("it is asked for again", || (next.hits() > 0).then_some(())).await;
        let late = control.late("the watch is asked for again", start.elapsed(), AGAIN, 0);
        next.release();
        guard.release().await.unwrap();
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
        late.map_or(Ok(()), Err)
    })
    .await;
}
