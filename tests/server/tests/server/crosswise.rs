//! Locks on two ensembles, which two processes acquire together.

use std::env;
use std::process::{Child, Command};

use zklock::blocking::block_on;
use zklock::{LockOptions, MultiLock, Session};

use crate::bed::{Bed, PATIENCE};

const ROUNDS: usize = 100;

/// That of the locks on both ensembles, so that only the servers tell the locks apart.
const ROOT: &str = "/own";

/// Acquires both again and again. Who waits for the other crosswise is not served in time.
async fn acquires_both(sessions: &[Session; 2]) {
    let lock = |session: &Session| {
        session.mutex("a").unwrap().with_options(LockOptions::new().timeout(PATIENCE))
    };
    let both = MultiLock::new(sessions.each_ref().map(lock)).unwrap();
    for _ in 0..ROUNDS {
        both.acquire_tries().await.unwrap().release().await.unwrap();
    }
}

/// The other process: this test binary again.
struct Other(Child);

impl Other {
    fn start(beds: [&Bed; 2]) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["crosswise::child", "--exact", "--ignored"])
            .env("ZKLOCK_SERVERS", beds.map(|bed| bed.server().addr()).join(" "))
            .spawn()
            .unwrap();
        Other(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "what another test runs as a process of its own"]
fn child() {
    let servers = env::var("ZKLOCK_SERVERS").unwrap();
    block_on(async {
        let mut sessions = Vec::new();
        for server in servers.split(' ') {
            let session = Session::builder(server).root(ROOT).connect_timeout(PATIENCE);
            sessions.push(session.connect().await.unwrap());
        }
        let sessions: [Session; 2] = sessions.try_into().unwrap();
        acquires_both(&sessions).await;
        for session in &sessions {
            session.close().await;
        }
    });
}

/// Each process opened its sessions in another order, and names its locks in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_wait_for_each_other_crosswise() {
    let (one, two) = (Bed::shared("own"), Bed::own());
    let (first, second) = (one.session().await, two.session().await);
    let busy = one.busy(&[&first]).await;
    let mut other = Other::start([&two, &one]);
    acquires_both(&[first, second]).await;
    assert!(other.0.wait().unwrap().success());
    drop(busy);
    one.end().await;
    two.end().await;
}
