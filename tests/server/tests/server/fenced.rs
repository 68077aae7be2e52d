//! A fenced write that is not answered.

use std::time::{Duration, Instant};

use zklock_test_support::{Action, Control, Direction, Matcher, OpCode};

use crate::bed::Bed;

const T: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_fenced_write_whose_answer_is_lost_fails_after_a_session_timeout_and_is_not_repeated() {
    let bed = Bed::shared("fenced-unanswered");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let (state, fenced) = (bed.path("state"), guard.fenced());
    fenced.create(&state, b"1").await.unwrap();
    proxy.clear_log();
    let lost = proxy.on(Matcher::reply(OpCode::Multi).path(&state), Action::Drop);
    let control = Control::of(bed.server());
    let start = Instant::now();
    let error = fenced.set(&state, b"2").await.unwrap_err();
    let took = start.elapsed();
    control.within("a write that is not answered", took, T);
    assert!(took >= T, "{took:?}");
    assert!(error.is_unavailable(), "{error:#}");
    assert!(format!("{error:#}").contains("the write may have been applied"), "{error:#}");
    assert_eq!(lost.hits(), 1);
    // Nor afterwards.
    tokio::time::sleep(T).await;
    let mut sent = proxy.log();
    sent.retain(|frame| frame.direction == Direction::ToServer);
    sent.retain(|frame| frame.path.as_ref().is_some_and(|path| path.contains(&state)));
    assert_eq!(sent.len(), 1, "{sent:?}");
    let mut raw = bed.raw();
    assert_eq!(raw.data(&state).unwrap(), b"2");
    raw.close().unwrap();
    // Other answers came, so the lock is held.
    assert!(guard.is_valid());
    lost.release();
    fenced.delete(&state).await.unwrap();
    guard.release().await.unwrap();
    bed.end().await;
}
