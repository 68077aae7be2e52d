use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::World;
use crate::chooser::Chooser;

type Seen = Arc<Mutex<Vec<(u64, &'static str)>>>;

fn see(world: &Arc<World>, seen: &Seen, what: &'static str) {
    seen.lock().unwrap().push((world.now(), what));
}

fn harmless() -> Arc<World> {
    World::new(Chooser::replay(Vec::new()), false)
}

#[test]
fn hours_pass_at_once_and_a_poll_takes_a_microsecond() {
    let (world, seen) = (harmless(), Seen::default());
    let (inside, saw) = (world.clone(), seen.clone());
    world.process().spawn(async move {
        inside.sleep_until(3_600_000_000).await;
        see(&inside, &saw, "woke");
    });
    while world.step() {}
    assert_eq!(*seen.lock().unwrap(), [(3_600_000_001, "woke")]);
}

#[test]
fn a_paused_process_does_nothing_and_its_timers_are_late() {
    let (world, seen) = (harmless(), Seen::default());
    let process = world.process();
    let (inside, saw) = (world.clone(), seen.clone());
    process.spawn(async move {
        inside.sleep_until(10).await;
        see(&inside, &saw, "woke");
    });
    process.pause();
    let paused = process.clone();
    world.at(50, move || paused.resume());
    while world.step() {}
    assert_eq!(*seen.lock().unwrap(), [(51, "woke")]);
}

#[test]
fn a_process_that_crashes_is_dropped_when_it_is_dead_already() {
    let world = harmless();
    let process = world.process();
    let alive = Arc::new(AtomicU64::new(7));
    struct Asks(super::Process, Arc<AtomicU64>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.1.store(u64::from(self.0.is_alive()), Ordering::Relaxed);
        }
    }
    let asks = Asks(process.clone(), alive.clone());
    process.spawn(async move {
        let _asks = asks;
        std::future::pending::<()>().await;
    });
    while world.step() {}
    assert_eq!(process.tasks(), 1);
    process.crash();
    assert_eq!((alive.load(Ordering::Relaxed), process.tasks()), (0, 0));
    process.spawn(async {});
    assert!(!world.step());
}

#[test]
fn timers_go_when_they_are_dropped() {
    let world = harmless();
    let inside = world.clone();
    world.process().spawn(async move {
        let (long, short) = (inside.sleep_until(1_000), inside.sleep_until(10));
        futures_lite::future::or(long, short).await;
    });
    while world.step() {}
    assert!(world.now() < 20);
}

#[test]
fn who_wakes_itself_keeps_nobody_from_its_turn() {
    let (world, seen) = (harmless(), Seen::default());
    let process = world.process();
    process.spawn(async {
        for _ in 0..100 {
            futures_lite::future::yield_now().await;
        }
    });
    let (inside, saw) = (world.clone(), seen.clone());
    process.spawn(async move { see(&inside, &saw, "ran") });
    while world.step() {}
    assert!(seen.lock().unwrap()[0].0 < 5);
}

#[test]
fn clocks_drift_and_are_waited_for() {
    let world = harmless();
    let (fast, slow) = (world.process(), world.process());
    let start = fast.nanos();
    fast.set_drift(1_000);
    slow.set_drift(-1_000);
    let second = start + 1_000_000_000;
    let (early, late) = (fast.moment(second), slow.moment(second));
    assert!(early < 1_000_000 && late > 1_000_000, "{early}, {late}");
    world.at(early, || {});
    while world.step() {}
    assert!(fast.nanos() >= second && slow.nanos() < second);
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let world = World::new(Chooser::random(seed), false);
        for _ in 0..3 {
            let (process, inside) = (world.process(), world.clone());
            process.spawn(async move {
                for _ in 0..20 {
                    let at = inside.now() + u64::from(inside.choose(100));
                    inside.sleep_until(at).await;
                }
            });
        }
        while world.step() {}
        world.digest()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_panic_ends_its_task_alone() {
    let world = harmless();
    let process = world.process();
    process.spawn(async { panic!("as somebody's code might") });
    process.spawn(async {});
    while world.step() {}
    assert_eq!((world.panics(), process.tasks()), (1, 0));
}

#[test]
fn who_looks_at_the_clock_until_it_shows_a_time_is_noticed() {
    let world = harmless();
    let process = world.process();
    let inside = process.clone();
    process.spawn(async move {
        let until = inside.nanos() + 1_000_000;
        while inside.nanos() < until {}
    });
    process.spawn(async {});
    while world.step() {}
    assert!(world.spins().is_some());
    assert_eq!((world.panics(), process.tasks()), (1, 0));
}
