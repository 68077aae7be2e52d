//! How a lane goes from one session to the next.

use super::*;
use crate::coordinator::memory::Embedded;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::session::broken_log::panics_at;
use crate::session::local_queues::Place;
use crate::session::runtime::Host;

/// Reaches no server the first few times.
#[derive(Debug)]
struct Late {
    inner: Arc<dyn Connector>,
    fails: AtomicUsize,
}

impl Connector for Late {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => Box::pin(async { Err(RequestError::Unreachable("down".to_owned())) }),
            Err(_) => self.inner.connect(),
        }
    }
}

fn lane(fails: usize) -> Arc<Lane> {
    let inner = Arc::new(Embedded::new().connector(Duration::from_secs(10)));
    Lane::start(Arc::new(LaneConfig {
        connector: Arc::new(Late { inner, fails: AtomicUsize::new(fails) }),
        runtime: Runtime::start(Host::Callers).unwrap().0,
        tick: None,
        most: 1,
        events: Events::default(),
        health: SessionHealth::connecting(),
        local_queues: LocalQueues::new(Place { servers: "lane".into(), chroot: "".into() }),
    }))
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_does_not_keep_a_lane_from_its_next_session() {
    let _log = panics_at("no ZooKeeper session could be opened");
    let lane = lane(3);
    let why = lane.trouble().expect("those who wait are not told why");
    assert_eq!(why.kind(), ErrorKind::Unavailable);
    let ready = tokio::time::timeout(Duration::from_secs(60), lane.ready());
    ready.await.expect("no session is opened any more").unwrap();
}
