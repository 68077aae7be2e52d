//! On a real server, beside Curator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zklock::{Body, LockError, Session, current, zk_locked};
use zklock_test_support::peers::{Curator, LockKind};
use zklock_test_support::{Control, RawClient, ZooKeeper};

const SESSION: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

const FROM: u32 = 7;
const TO: u32 = 9;

async fn session(server: &ZooKeeper, root: &str, timeout: Duration) -> Session {
    let builder = Session::builder(server.addr()).root(root).session_timeout(timeout);
    builder.connect_timeout(SOON).connect().await.unwrap()
}

/// A body that says where it is held, and never ends by itself.
struct Work {
    session: Session,
    inside: Notify,
    path: std::sync::Mutex<String>,
}

impl Work {
    fn new(session: Session) -> Arc<Self> {
        Arc::new(Work { session, inside: Notify::new(), path: std::sync::Mutex::default() })
    }

    fn begin(&self) {
        let path = current().view().unwrap().node_path().to_owned();
        *self.path.lock().unwrap() = path;
        self.inside.notify_one();
    }

    #[zk_locked("orders", session = self.session, on_revoked = cancel)]
    async fn orders(&self) -> Result<(), LockError> {
        self.begin();
        std::future::pending().await
    }

    #[zk_locked("stock", session = self.session, mode = read, on_revoked = cancel)]
    async fn stock(&self) -> Result<(), LockError> {
        self.begin();
        std::future::pending().await
    }

    #[zk_locked("printers", session = self.session, mode = semaphore(1), on_revoked = cancel)]
    async fn printers(&self) -> Result<(), LockError> {
        self.begin();
        std::future::pending().await
    }

    #[zk_locked("accounts", session = self.session, key = FROM, key = TO, on_revoked = cancel)]
    async fn accounts(&self) -> Result<(), LockError> {
        self.begin();
        std::future::pending().await
    }

    #[zk_locked("orders", session = self.session, on_revoked = ignore)]
    async fn stubborn(&self) -> Result<(), LockError> {
        self.begin();
        current().revoked().await;
        Ok(())
    }
}

/// Curator asks whoever holds the lock to let go, waits for it, and has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_dropped_when_curator_asks_for_its_lock() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let work = Work::new(session(ZooKeeper::shared(), "/attribute/curator", SESSION).await);
    let call = tokio::spawn({
        let work = work.clone();
        async move { work.orders().await }
    });
    work.inside.notified().await;
    let pending = agent.start_acquire(LockKind::Mutex, "/attribute/curator/orders", None);
    let path = work.path.lock().unwrap().clone();
    agent.revoke(&path).unwrap();
    let error = tokio::time::timeout(SOON, call).await.unwrap().unwrap().unwrap_err();
    assert!(error.is_revoked(), "{error}");
    assert_eq!((error.body(), error.lock_name()), (Some(Body::Dropped), Some("orders")));
    // Not before: it is Curator's turn.
    let grant = pending.wait(SOON).unwrap().held();
    agent.release(&grant).unwrap();
    work.session.close().await;
    agent.quit();
}

/// The marker that Curator writes, on the node of each mode. The heartbeat that would find it comes a
/// sixth of the session timeout after the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_is_heard_before_the_next_heartbeat() {
    const LONG: Duration = Duration::from_secs(600);
    let server = ZooKeeper::builder().max_session_timeout(LONG).start();
    let work = Work::new(session(&server, "/attribute", LONG).await);
    let mut raw = RawClient::connect(&server.addr(), SOON).unwrap();
    let control = Control::of(&server);
    for mode in ["exclusive", "read", "semaphore", "keys"] {
        let call = tokio::spawn({
            let work = work.clone();
            async move {
                match mode {
                    "exclusive" => work.orders().await,
                    "read" => work.stock().await,
                    "semaphore" => work.printers().await,
                    _ => work.accounts().await,
                }
            }
        });
        work.inside.notified().await;
        let path = work.path.lock().unwrap().clone();
        raw.set_data(&path, b"__REVOKE__").unwrap();
        let asked = Instant::now();
        let error = tokio::time::timeout(LONG, call).await.unwrap().unwrap().unwrap_err();
        assert!(error.is_revoked(), "{mode}: {error}");
        // The node is read, and deleted.
        control.within_answers(mode, asked.elapsed(), Duration::ZERO, 2);
    }
    raw.close().unwrap();
    work.session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_ignores_it_keeps_the_lock_to_its_end() {
    const SHORT: Duration = Duration::from_secs(6);
    let work = Work::new(session(ZooKeeper::shared(), "/attribute/stubborn", SHORT).await);
    let call = tokio::spawn({
        let work = work.clone();
        async move { work.stubborn().await }
    });
    work.inside.notified().await;
    let asking = session(ZooKeeper::shared(), "/attribute/stubborn", SESSION).await;
    assert_eq!(asking.site("orders").unwrap().revoke().await.unwrap(), 1);
    let (control, asked) = (Control::of(ZooKeeper::shared()), Instant::now());
    // It is not watched: it hears of it by the next heartbeat, which is refused, and reads it; and deletes it.
    tokio::time::timeout(SOON, call).await.unwrap().unwrap().unwrap();
    control.within_answers("a body that ignores it", asked.elapsed(), SHORT / 6, 3);
    asking.mutex("orders").unwrap().acquire().await.unwrap().release().await.unwrap();
    asking.close().await;
    work.session.close().await;
}
