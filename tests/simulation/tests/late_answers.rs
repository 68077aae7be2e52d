//! Answers that take so long that nothing is granted, or nearly.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options, Weather};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;
use zklock_test_support::Warnings;

/// A lease is 5.5 s.
const T: Duration = Duration::from_secs(10);

/// In microseconds.
const SECOND: u64 = 1_000_000;

/// When answers begin to take long, and when they come at once again.
const SLOW: (u64, u64) = (20 * SECOND, 170 * SECOND);

/// What came of it.
struct Outcome {
    /// When a plain acquire, or a writer's step down, came to its end.
    granted: u64,
    /// What the log said.
    warnings: Vec<String>,
    /// The error of an acquire of 30 s meanwhile.
    error: Option<String>,
    /// Whether what was held before is valid in the end.
    keeps: bool,
}

/// Acquires a lock, or steps down from a writer to a reader, while answers take so long, and up to twice
/// as long where the client library sends a request only once the one before has arrived.
fn where_answers_take(answer: u64, steps_down: bool) -> Outcome {
    let warnings = Warnings::collect();
    let world = World::new(Chooser::random(1), false);
    let ensemble = Ensemble::new(&world, Options { tick: 2 * SECOND, ..Options::default() });
    let process = world.process();
    let connector = ensemble.connector(&process, Connecting::new(T));
    let session = Session::simulated_builder(connector, Host::of(&process));
    let session = session.max_connections(1).open().unwrap();
    let ((tell, told), (keep, kept)) = (mpsc::channel(), mpsc::channel());
    let (here, asleep) = (session.clone(), world.clone());
    process.spawn(async move {
        // Its heartbeats: the client library leaves a connection on which nothing comes, as that of an idle
        // client, which waits for the answer to its ping.
        let held = here.mutex("held").unwrap().acquire().await.unwrap();
        let lock = here.rw_lock("orders").unwrap();
        let writing = lock.write().await.unwrap();
        if steps_down {
            asleep.sleep_until(SLOW.0 + SECOND).await;
            assert!(writing.downgrade().await.unwrap().is_valid());
        } else {
            writing.release().await.unwrap();
            asleep.sleep_until(SLOW.0 + SECOND).await;
            assert!(lock.write().await.unwrap().is_valid());
        }
        tell.send(asleep.now()).unwrap();
        asleep.sleep_until(SLOW.1).await;
        keep.send(held.is_valid()).unwrap();
    });
    let (say, said) = mpsc::channel();
    let asleep = world.clone();
    process.spawn(async move {
        asleep.sleep_until(SLOW.0 + 10 * SECOND).await;
        let acquired = session.mutex("bills").unwrap().acquire_timeout(3 * T).await;
        say.send(acquired.err().map(|error| format!("{error:#}"))).unwrap();
        // The session must not end.
        asleep.sleep_until(10 * SLOW.1).await;
        drop(session);
    });
    // Not at once, for the same reason.
    let slower = (1..=5).map(|step| (SLOW.0 - (5 - step) * 2 * SECOND, answer / 10 * step));
    for (at, latency) in slower.chain([(SLOW.1, 200)]) {
        let network = ensemble.clone();
        let weather = Weather { latency, ..Weather::default() };
        world.at(at, move || network.set_weather(weather));
    }
    while world.now() < SLOW.1 + 60 * SECOND && world.step() {}
    let (granted, error) = (told.try_recv().unwrap(), said.try_recv().unwrap());
    Outcome { granted, warnings: warnings.take(), error, keeps: kept.try_recv().unwrap() }
}

#[test]
fn where_two_answers_do_not_fit_into_a_lease_it_is_said_why_nothing_is_granted() {
    let Outcome { granted, warnings, error, .. } = where_answers_take(3 * SECOND, false);
    assert!(granted >= SLOW.1, "{granted}");
    let why = "nobody is ahead, and the lock is not granted: ZooKeeper's answers take too long";
    let said: Vec<_> = warnings.iter().filter(|line| line.contains(why)).collect();
    // Once a minute, of whichever lock it is.
    assert!((2..=3).contains(&said.len()), "{warnings:#?}");
    assert!(said[0].contains("lock=\"orders\""), "{said:#?}");
    assert!(said.iter().all(|line| line.contains("s lease=5.5s")), "{said:#?}");
    let error = error.unwrap();
    assert!(error.contains("within a fifth of the session timeout of 10s"), "{error}");
}

/// Whether something is granted depends on when a message was sent last.
#[test]
fn where_they_take_nearly_a_quarter_of_the_session_timeout_what_is_held_goes_on() {
    for steps_down in [false, true] {
        let Outcome { granted, keeps, .. } = where_answers_take(12 * SECOND / 5, steps_down);
        assert!(keeps);
        // It asks again meanwhile, and then for what it finds.
        assert!(!steps_down || granted < SLOW.0 + 30 * SECOND, "{granted}");
    }
}

#[test]
fn where_they_do_a_lock_is_granted_and_nothing_is_said() {
    for steps_down in [false, true] {
        let Outcome { granted, warnings, error, keeps } =
            where_answers_take(12 * SECOND / 10, steps_down);
        assert!(granted < SLOW.0 + 30 * SECOND && keeps, "{granted}");
        assert_eq!((warnings, error), (Vec::new(), None));
    }
}
