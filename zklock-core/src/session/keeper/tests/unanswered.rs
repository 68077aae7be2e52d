//! Who waits for an answer when the session ends: a pending reply would keep it open.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bed::{PAYLOAD, unkept};
use crate::base::owner::REVOKE;
use crate::base::policy::StopAt;
use crate::coordinator::node::NodeKind;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::session::generation::Since;
use crate::session::own_watch::{evaluate, watch_own};
use crate::session::unused::Unused;

/// What reads a held node, restores its data, deletes a directory that was not used, and lists one for all.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_answer_beyond_the_end_of_the_session() {
    let (kept, _keeping) = unkept().await;
    let generation = &kept.generation;
    generation.create("/d", b"", NodeKind::Container).await.unwrap();
    let unused = Unused::default();
    assert!(unused.making(generation, "/d"));
    let node = kept.hold_with("/a", StopAt::Lost, PAYLOAD).await;
    let (_, stat) = generation.coordinator().get("/a").await.unwrap();
    let driver: Arc<dyn LockDriver> = Arc::new(Curator);
    kept.forgets.store(u32::MAX, Ordering::SeqCst);
    watch_own(generation, &node);
    assert!(evaluate(generation, &node, REVOKE, &stat));
    drop(unused);
    let listed = generation.list("/d", &driver, Since::Now);
    assert_eq!(kept.unanswered(), 4);
    generation.end();
    assert_eq!(kept.unanswered(), 0);
    assert!(listed.await.unwrap().is_err());
}
