//! Answers that take long, on a busy day.

use std::io::{Write as _, stderr};
use std::time::{Duration, Instant};

use zklock::ErrorKind;
use zklock::Session;
use zklock::layout::Kazoo;
use zklock_test_support::{Control, Warnings};

use crate::bed::{Bed, PATIENCE, acquiring, soon};

/// Not that of another test: the lease follows from it, and tells their lines in the log apart.
const T: Duration = Duration::from_millis(10_200);

/// They take longer than is waited for at first.
#[tokio::test]
async fn permits_are_granted_where_answers_take_long_on_a_busy_day() {
    const ANSWER: Duration = Duration::from_millis(1_400);
    let bed = Bed::shared("late-permits");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let semaphore = session.semaphore("printers", 1).unwrap().with_driver(Kazoo::default());
    proxy.delay(ANSWER / 2);
    let start = Instant::now();
    let permit = semaphore.acquire_timeout(PATIENCE).await.unwrap();
    println!("a permit after {:?}, each answer after {ANSWER:?}", start.elapsed());
    assert!(permit.is_valid());
    proxy.heal();
    permit.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// Two answers, one after the other, must come within a lease of 5.61 s.
#[tokio::test]
async fn where_two_answers_do_not_fit_into_a_lease_it_is_said_why_nothing_is_granted() {
    const ANSWER: Duration = Duration::from_secs(3);
    let bed = Bed::shared("late-answers");
    let said = Warnings::everywhere();
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
    let session = bed.adopt(builder.connect().await.unwrap());
    assert_eq!(session.timing().unwrap().lease, T * 55 / 100);
    let busy = bed.busy_in_one_lane_while_broken(&[&session]).await;
    let connections = proxy.connections_total();
    let looks = tokio::spawn(never_silent(session.clone()));
    // Not at once: the client library leaves a server that is silent for so long.
    for answer in [ANSWER / 3, ANSWER] {
        proxy.delay(answer / 2);
        tokio::time::sleep(T * 6 / 10).await;
    }
    let waiting = acquiring(&session, "late-orders");
    let control = Control::timers();
    let start = Instant::now();
    let timed = session.mutex("late-bills").unwrap().acquire_timeout(2 * T).await;
    control.within("an acquire in vain", start.elapsed(), 2 * T);
    let error = timed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let told = format!("{error:#}");
    assert!(told.contains("its answers take ") && told.contains("timeout of 10.2s"), "{told}");
    assert!(!waiting.is_finished());
    let why = "nobody is ahead, and the lock is not granted: ZooKeeper's answers take too long";
    // Other tests of this process have other leases.
    let mut lines = said(why);
    lines.retain(|line| line.contains("lease=5.61s"));
    // Once a minute, of whichever lock it is: perhaps one of the traffic.
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(proxy.connections_total(), connections, "the connection was left");
    assert!(lines.iter().all(|line| line.contains("lock=\"")), "{lines:#?}");
    proxy.heal();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    looks.abort();
    drop(busy);
    bed.end().await;
}

/// Perhaps nothing is granted there, but what is held goes on.
#[tokio::test]
async fn a_writer_steps_down_where_answers_take_nearly_a_quarter_of_the_session_timeout() {
    // A guard is valid while they take less than 0.23 T. A grant needs those of T/5, or a little more.
    const ANSWER: Duration = Duration::from_millis(2_280);
    // As close to that of the other test as can be, and not the same.
    const T: Duration = Duration::from_millis(10_100);
    let kept = T * 23 / 100;
    for time in 1..=3 {
        let bed = Bed::shared(&format!("late-downgrade-{time}"));
        let proxy = bed.proxy();
        let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
        let session = bed.adopt(builder.connect().await.unwrap());
        let busy = bed.busy_in_one_lane_while_broken(&[&session]).await;
        let writer = session.rw_lock("late-downgrade").unwrap().write().await.unwrap();
        let looks = tokio::spawn(never_silent(session.clone()));
        let control = Control::at(&proxy.addr());
        for answer in [ANSWER / 3, ANSWER] {
            proxy.delay(answer / 2);
            tokio::time::sleep(T * 6 / 10).await;
        }
        let start = Instant::now();
        let outcome = soon("the step down", writer.downgrade()).await;
        println!("stepped down after {:?}, each answer after {ANSWER:?}", start.elapsed());
        let is_done = match outcome {
            Ok(reader) => {
                assert!(reader.is_valid());
                true
            }
            Err(error) => {
                // Only a machine that adds much to an answer takes the lock away.
                let answer = control.longest_answer();
                assert!(
                    error.error().is_lost() && answer > kept,
                    "{error}, answers within {answer:?}"
                );
                let verdict = if time < 3 { "MEASURED AGAIN" } else { "NOT MEASURED" };
                let _ = writeln!(stderr(), "{verdict}, an answer took {answer:?}");
                false
            }
        };
        proxy.heal();
        looks.abort();
        drop((busy, control));
        bed.end().await;
        if is_done {
            break;
        }
    }
}

/// Asks so often that an answer is always under way: the client library leaves a server that sends
/// nothing for 4/15 of `T`, which is less than one answer takes. The traffic pauses for longer now and then.
pub(crate) async fn never_silent(session: Session) {
    loop {
        let site = session.site("late-looks").unwrap();
        tokio::spawn(async move { site.contenders().await });
        tokio::time::sleep(T / 40).await;
    }
}
