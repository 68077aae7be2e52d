//! Lock delay and shortest hold: what outlives the process that was granted the lock.

use std::time::{Duration, Instant};

use zklock::{LockOptions, Mutex, Session};
use zklock_test_support::{Control, CreateMode, OpCode};

use crate::bed::{Bed, TICK, soon, until};
use crate::process::{Part, Process};

/// Empty containers are removed within two seconds on the servers of these tests.
const HOLD: Duration = Duration::from_secs(6);
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The list, what is written in the directory, the mark, and a check.
const ANSWERS: u32 = 5;

fn mutex(session: &Session, options: LockOptions) -> Mutex {
    session.mutex("a").unwrap().with_options(options)
}

fn data(bed: &Bed) -> String {
    let mut raw = bed.raw();
    let data = raw.data(&bed.path("a")).unwrap();
    raw.close().unwrap();
    String::from_utf8(data).unwrap()
}

#[tokio::test]
async fn a_job_whose_process_exits_at_once_is_busy_until_its_end() {
    let bed = Bed::shared("job");
    let options = LockOptions::default().hold_at_least(HOLD);
    let start = Instant::now();
    let mut job = Process::start_with(&bed, Part::Leave, SESSION_TIMEOUT, [Duration::ZERO, HOLD]);
    assert!(job.wait().success());
    let exited = start.elapsed();
    assert!(bed.contenders("a").is_empty(), "the node goes with the process");
    let session = bed.session().await;
    let second = mutex(&session, options);
    let busy = bed.busy(&[&session]).await;
    // Busy all the time, and by what is written in the directory.
    while start.elapsed() < HOLD - Duration::from_secs(1) {
        let error = second.try_acquire().await.unwrap_err();
        assert_eq!(error.code(), "1011");
        assert!(format!("{error:#}").contains("it is held at least until 20"), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (control, asked) = (Control::of(bed.server()), start.elapsed());
    let guard = soon("the lock", second.acquire()).await.unwrap();
    let took = start.elapsed();
    assert!(took >= HOLD, "{took:?}");
    // On a busy machine it may be asked for later than that.
    let promised = asked.max(exited + HOLD);
    control.within_answers("the lock after a job", took, promised, ANSWERS);
    guard.release().await.unwrap();
    // It stays now, and goes in the end.
    assert_eq!(bed.contenders("a").len(), 1);
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn after_a_crash_the_next_waits_for_the_delay_and_after_a_release_for_nothing() {
    let bed = Bed::shared("delay");
    let delay = Duration::from_secs(3);
    let options = LockOptions::default().lock_delay(delay);
    let session = bed.session().await;
    let next = mutex(&session, options);
    let busy = bed.busy(&[&session]).await;
    let mut holder =
        Process::start_with(&bed, Part::Hold, SESSION_TIMEOUT, [delay, Duration::ZERO]);
    assert!(data(&bed).contains(r#""delay_ms":3000"#), "{}", data(&bed));
    let waiting = tokio::spawn(async move {
        let guard = soon("the lock", next.acquire()).await.unwrap();
        (next, guard)
    });
    bed.until_contenders("a", 2).await;
    let (control, start) = (Control::of(bed.server()), Instant::now());
    holder.kill();
    let (next, guard) = waiting.await.unwrap();
    let took = start.elapsed();
    // The session was heard of within a third of its timeout before.
    assert!(took >= SESSION_TIMEOUT * 2 / 3 + delay, "{took:?}");
    let promised = SESSION_TIMEOUT + TICK + delay;
    control.within_answers("the lock after a crash", took, promised, ANSWERS);
    guard.release().await.unwrap();
    assert_eq!(data(&bed), r#"{"zklock":1,"kept":true}"#);
    // A process that lets go and exits was not lost.
    let mut leaves = Process::start_with(&bed, Part::Leave, SESSION_TIMEOUT, [delay; 2]);
    assert!(leaves.wait().success());
    let error = next.try_acquire().await.unwrap_err();
    assert!(format!("{error:#}").contains("held at least"), "{error}");
    let mut leaves =
        Process::start_with(&bed, Part::Leave, SESSION_TIMEOUT, [delay, Duration::ZERO]);
    assert!(leaves.wait().success());
    next.try_acquire().await.unwrap().release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// Nobody watches the node of a reader that rests, and answers about other locks do not say that it is there.
#[tokio::test]
async fn a_reader_whose_node_goes_while_it_rests_is_not_let_in_beside_a_writer() {
    const DELAY: Duration = Duration::from_secs(3);
    const T: Duration = Duration::from_secs(12);
    let bed = Bed::shared("delay-reader");
    let proxy = bed.proxy();
    let lock = |session: &Session| session.rw_lock("a").unwrap();
    let delayed = |session| lock(session).with_options(LockOptions::default().lock_delay(DELAY));
    let one_connection = bed.builder().session_timeout(T).max_connections(1);
    let reader = bed.adopt(one_connection.connect().await.unwrap());
    let (crashed, other) = (bed.session_through(&proxy).await, bed.session().await);
    let beside = reader.mutex("b").unwrap().acquire().await.unwrap();
    let lost = delayed(&crashed).write().await.unwrap();
    proxy.expire_session(crashed.zookeeper_session().unwrap().id);
    let reading = delayed(&reader);
    let reading = tokio::spawn(async move { soon("to read", reading.read()).await.unwrap() });
    until("it rests", || data(&bed).contains(r#""lost":true"#).then_some(())).await;
    let rested = Instant::now() + DELAY;
    // One who knows nothing of the delay.
    let writing = lock(&other);
    let writing = tokio::spawn(async move { soon("to write", writing.write()).await.unwrap() });
    bed.until_nodes("a", 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    bed.delete(&bed.path(&format!("a/{}", bed.contenders_by("a", "__READ__")[0])));
    let written = writing.await.unwrap();
    while Instant::now() < rested + Duration::from_secs(1) {
        // On a machine that stands still for long, both may be lost.
        assert!(!reading.is_finished() || !written.is_valid(), "two are inside");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(written);
    let guard = reading.await.unwrap();
    let nodes = bed.below(&bed.path("a"));
    assert!(nodes.iter().any(|node| node == guard.node_path()) || !guard.is_valid(), "{nodes:?}");
    drop((guard, beside, lost));
    bed.end().await;
}

/// The delay begins when somebody comes: until then no moment says when it ends.
#[tokio::test]
async fn a_survey_tells_the_delay_before_somebody_comes_and_its_end_afterwards() {
    let bed = Bed::shared("awaits");
    let delay = Duration::from_secs(30);
    let session = bed.session().await;
    let (site, next) =
        (session.site("a").unwrap(), mutex(&session, LockOptions::default().lock_delay(delay)));
    let mut holder =
        Process::start_with(&bed, Part::Hold, SESSION_TIMEOUT, [delay, Duration::ZERO]);
    let held = site.survey().await.unwrap();
    assert_eq!((held.queue.len(), held.lock_delay, held.unavailable_until), (1, None, None));
    holder.kill();
    bed.until_contenders("a", 0).await;
    let lost = site.survey().await.unwrap();
    assert_eq!((lost.lock_delay, lost.unavailable_until), (Some(delay), None));
    next.try_acquire().await.unwrap_err();
    let noted = site.survey().await.unwrap();
    assert!(noted.lock_delay.is_none() && noted.unavailable_until.is_some(), "{noted:?}");
    bed.end().await;
}

#[tokio::test]
async fn a_container_of_others_is_replaced_and_their_data_is_not() {
    let bed = Bed::shared("kept");
    let options = LockOptions::default().hold_at_least(Duration::from_millis(1));
    let session = bed.session().await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    mutex(&session, options).acquire().await.unwrap().release().await.unwrap();
    assert!(data(&bed).starts_with(r#"{"zklock":1,"kept":true"#), "{}", data(&bed));
    let mut raw = bed.raw();
    raw.create(&bed.path("a/zzz"), b"", CreateMode::Persistent).unwrap();
    raw.set_data(&bed.path("a"), b"3").unwrap();
    raw.close().unwrap();
    for options in [options, LockOptions::default().lock_delay(HOLD)] {
        let error = mutex(&session, options).acquire().await.unwrap_err();
        assert_eq!(error.code(), "1022");
        assert_eq!(data(&bed), "3");
    }
    bed.end().await;
}

#[tokio::test]
async fn a_delay_costs_a_read_and_a_commit_for_each_grant() {
    let bed = Bed::shared("delay-cost");
    let proxy = bed.proxy();
    let session = bed.builder_at(&proxy.addr()).session_timeout(Duration::from_secs(60));
    let session = bed.adopt(session.connect().await.unwrap());
    let mutex = mutex(&session, LockOptions::default().lock_delay(HOLD));
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.clear_log();
    const TIMES: usize = 20;
    for _ in 0..TIMES {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let one = [OpCode::Create2, OpCode::GetChildren, OpCode::GetData, OpCode::Multi, OpCode::Multi];
    assert_eq!(crate::cost::requests(&proxy), one.repeat(TIMES));
    bed.end().await;
}
