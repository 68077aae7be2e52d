//! The simulated ensemble by itself, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::coordinator::watch::WatchEvent;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Gone, Options, Weather};
use zklock_simulation::executor::{Process, World};

const TIMEOUT: Duration = Duration::from_secs(4);
const SECOND: u64 = 1_000_000;

fn world(seed: u64, servers: usize) -> (Arc<World>, Ensemble) {
    let world = World::new(Chooser::random(seed), false);
    let weather = Weather { steps: 4, lag: 8, disk: 3, ..Weather::default() };
    let ensemble = Ensemble::new(&world, Options { servers, weather, ..Options::default() });
    (world, ensemble)
}

/// Runs a task of a process to its end.
fn run<T: Send + 'static>(process: &Process, work: impl Future<Output = T> + Send + 'static) -> T {
    let done = Arc::new(Mutex::new(None));
    let slot = done.clone();
    process.spawn(async move {
        let result = work.await;
        *slot.lock().unwrap() = Some(result);
    });
    let world = process.world().clone();
    while done.lock().unwrap().is_none() {
        assert!(world.step(), "nothing happens any more");
        assert!(world.now() < 600 * SECOND, "it takes too long");
    }
    done.lock().unwrap().take().unwrap()
}

async fn open(ensemble: &Ensemble, process: &Process) -> Arc<dyn Coordinator> {
    ensemble.connector(process, Connecting::new(TIMEOUT)).connect().await.unwrap()
}

/// Opens a session at this server.
async fn open_at(ensemble: &Ensemble, process: &Process, server: usize) -> Arc<dyn Coordinator> {
    let connecting = Connecting { servers: vec![server], ..Connecting::new(TIMEOUT) };
    ensemble.connector(process, connecting).connect().await.unwrap()
}

#[test]
fn the_nodes_of_a_process_that_died_go_after_its_session_timeout() {
    for servers in [1, 3] {
        let (world, ensemble) = world(7, servers);
        let (one, other) = (world.process(), world.process());
        let inside = (ensemble.clone(), one.clone());
        let session = run(&one, async move { open(&inside.0, &inside.1).await });
        let created = session.create("/a", b"", NodeKind::Ephemeral);
        let stat = run(&one, created).unwrap().stat;
        let died = world.now();
        one.crash();
        let inside = (ensemble.clone(), other.clone());
        run(&other, async move {
            let session = open(&inside.0, &inside.1).await;
            let (_, _, watch) = session.get_watched("/a").await.unwrap();
            assert_eq!(watch.await, WatchEvent::Deleted);
        });
        let lives = ensemble.lives();
        let life = lives.iter().find(|life| life.czxid == stat.czxid).unwrap();
        let (gone, why) = life.gone.unwrap();
        assert_eq!(why, Gone::SessionEnded);
        // Up to a tick later, and a follower tells its leader each half tick.
        let took = gone - died;
        assert!((4 * SECOND..4 * SECOND + 320_000).contains(&took), "{servers}: {took}");
        drop(session);
    }
}

#[test]
fn the_last_answer_of_a_connection_is_heard_together_with_its_end() {
    let (world, ensemble) = world(7, 1);
    let process = world.process();
    let inside = (ensemble.clone(), process.clone());
    let session = run(&process, async move { open(&inside.0, &inside.1).await });
    ensemble.set_weather(Weather { last: 1_000, ..Weather::default() });
    let (client, made) = (session.clone(), session.create("/a", b"", NodeKind::Ephemeral));
    let link = run(&process, async move { made.await.map(|_| client.link()) });
    assert_eq!((link.unwrap(), ensemble.tally().strikes), (Link::Down, 1));
    ensemble.set_weather(Weather::default());
    let client = session.clone();
    run(&process, async move { client.link_changed(Link::Down).await });
    assert!(run(&process, session.get("/a")).is_ok());
}

#[test]
fn a_client_that_is_cut_off_learns_of_its_end_when_it_is_back() {
    let (world, ensemble) = world(3, 1);
    let process = world.process();
    let inside = (ensemble.clone(), process.clone());
    run(&process, async move {
        let (ensemble, process) = inside;
        let world = process.world().clone();
        let session = open(&ensemble, &process).await;
        session.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
        ensemble.block(&process, 0, true, true);
        let since = world.now();
        assert_eq!(session.link_changed(Link::Up).await, Link::Down);
        // Four fifteenths of the session timeout, and what its timer adds.
        assert!((1_000_000..1_300_000).contains(&(world.now() - since)));
        let waiting = session.create("/b", b"", NodeKind::Ephemeral);
        world.sleep_until(since + 5 * SECOND).await;
        assert!(ensemble.nodes("/").is_empty());
        assert_eq!(session.link(), Link::Down);
        ensemble.block(&process, 0, false, false);
        assert_eq!(session.link_changed(Link::Down).await, Link::Expired);
        assert_eq!(waiting.await, Err(RequestError::SessionExpired));
    });
}

#[test]
fn who_is_away_for_too_long_gives_its_session_up() {
    let (world, ensemble) = world(4, 1);
    let process = world.process();
    let inside = (ensemble.clone(), process.clone());
    run(&process, async move {
        let (ensemble, process) = inside;
        let world = process.world().clone();
        let session = open(&ensemble, &process).await;
        ensemble.block(&process, 0, true, true);
        let since = world.now();
        session.link_changed(Link::Up).await;
        assert_eq!(session.link_changed(Link::Down).await, Link::Expired);
        let took = world.now() - since;
        assert!((5_000_000..6_900_000).contains(&took), "{took}");
    });
}

#[test]
fn a_follower_that_is_cut_off_shows_what_was() {
    let (world, ensemble) = world(5, 3);
    let process = world.process();
    let inside = (ensemble.clone(), process.clone());
    run(&process, async move {
        let (ensemble, process) = inside;
        let world = process.world().clone();
        let leader = ensemble.leader().unwrap();
        let cut = (leader + 1) % 3;
        let stale = open_at(&ensemble, &process, cut).await;
        let fresh = open_at(&ensemble, &process, leader).await;
        fresh.create("/a", b"", NodeKind::Persistent).await.unwrap();
        stale.sync("/a").await.unwrap();
        stale.get("/a").await.unwrap();
        for other in (0..3).filter(|other| *other != cut) {
            ensemble.part(cut, other, true);
            ensemble.part(other, cut, true);
        }
        fresh.delete("/a").await.unwrap();
        let since = world.now();
        let mut seen = 0;
        while stale.get("/a").await.is_ok() {
            seen = world.now() - since;
            world.sleep_until(world.now() + 50_000).await;
        }
        // Ten ticks, and then it lets its clients go.
        assert!((1_500_000..2_400_000).contains(&seen), "{seen}");
    });
}

/// What one server sends another one arrives in order, also where the way is silent and the other one stands
/// still at a time, whichever begins first.
#[test]
fn a_follower_that_stands_still_and_is_not_heard_learns_everything_in_order() {
    for (seed, silent_first) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        let (world, ensemble) = world(seed, 3);
        let process = world.process();
        let inside = (ensemble.clone(), process.clone());
        let seen = run(&process, async move {
            let (ensemble, process) = inside;
            let world = process.world().clone();
            let leader = ensemble.leader().unwrap();
            let late = (leader + 1) % 3;
            let behind = open_at(&ensemble, &process, late).await;
            let fresh = open_at(&ensemble, &process, leader).await;
            let disturb = |silent, on| match silent {
                true => {
                    ensemble.part(leader, late, on);
                    ensemble.part(late, leader, on);
                }
                false => ensemble.freeze(late, on),
            };
            let rest = || world.sleep_until(world.now() + 20_000);
            disturb(silent_first, true);
            fresh.create("/a", b"", NodeKind::Persistent).await.unwrap();
            rest().await;
            disturb(!silent_first, true);
            // Without the node before, there is no room for it.
            fresh.create("/a/b", b"", NodeKind::Persistent).await.unwrap();
            rest().await;
            disturb(silent_first, false);
            fresh.create("/a/b/c", b"", NodeKind::Persistent).await.unwrap();
            rest().await;
            disturb(!silent_first, false);
            behind.sync("/a").await.unwrap();
            behind.get("/a/b/c").await.map(drop)
        });
        assert_eq!(seen, Ok(()), "{seed} {silent_first}");
    }
}

/// It closes its connections with those who follow it, who hear that and need not find out by its silence.
#[test]
fn a_leader_that_gives_up_is_replaced_at_once() {
    for seed in 0..20 {
        let (world, ensemble) = world(seed, 3);
        let until = |at: u64| while world.now() < at && world.step() {};
        let leader = ensemble.leader().unwrap();
        let others: Vec<usize> = (0..3).filter(|other| *other != leader).collect();
        until(SECOND);
        others.iter().for_each(|other| ensemble.part(*other, leader, true));
        // Ten ticks later it gives up, and an election takes four times 0.3 s at most.
        until(SECOND + 2_200_000 + 1_200_000);
        let next = ensemble.leader();
        assert!(next.is_some_and(|next| next != leader), "{seed}: {next:?}");
    }
}

#[test]
fn a_leader_that_dies_is_replaced_and_sessions_move() {
    for seed in 0..20 {
        let (world, ensemble) = world(seed, 3);
        let process = world.process();
        let inside = (ensemble.clone(), process.clone());
        run(&process, async move {
            let (ensemble, process) = inside;
            let session = open(&ensemble, &process).await;
            let before = session.create("/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
            let leader = ensemble.leader().unwrap();
            ensemble.crash(leader, 1);
            let after = loop {
                match session.create("/n-", b"", NodeKind::EphemeralSequential).await {
                    Ok(created) => break created,
                    Err(error) => assert!(!error.is_definite(), "{error}"),
                }
            };
            assert_ne!(ensemble.leader(), Some(leader));
            assert!(after.stat.czxid > before.stat.czxid);
            assert_eq!(after.stat.ephemeral_owner, session.session_id());
            ensemble.restart(leader);
            session.multi(vec![Operation::Check { path: before.path }]).await.unwrap();
            session.close().await;
            let world = process.world().clone();
            world.sleep_until(world.now() + SECOND).await;
            assert!(ensemble.nodes("/").is_empty());
            assert!(ensemble.sessions().is_empty());
        });
    }
}

#[test]
fn under_fire_every_request_is_answered_and_the_same_seed_does_the_same() {
    let play = |seed: u64| {
        let (world, ensemble) = world(seed, 1 + 2 * (seed as usize % 2));
        ensemble.set_weather(Weather {
            steps: 4,
            slow: 20,
            strikes: 50,
            lag: 8,
            disk: 3,
            ..Weather::default()
        });
        let process = world.process();
        let inside = (ensemble.clone(), process.clone());
        let answered = run(&process, async move {
            let (ensemble, process) = inside;
            let (mut answered, mut session) = (0, open(&ensemble, &process).await);
            let world = process.world().clone();
            for round in 0..40 {
                let kind = NodeKind::EphemeralSequential;
                let late = world.sleep_until(world.now() + 2 * SECOND);
                let asked = session.create("/n-", b"", kind);
                let asked = async { Some(asked.await) };
                let late = async {
                    late.await;
                    None
                };
                match futures_lite::future::or(asked, late).await {
                    Some(Ok(_)) => answered += 1,
                    Some(Err(error)) if error.ends_session() => {
                        session = open(&ensemble, &process).await;
                    }
                    Some(Err(error)) => assert!(!error.is_definite(), "{round}: {error}"),
                    None => {}
                }
            }
            answered
        });
        (answered, world.digest(), world.take_record().len())
    };
    for seed in 0..20 {
        assert_eq!(play(seed), play(seed));
        assert!(play(seed).0 > 10);
    }
}

/// Runs a task with the ensemble, a process and a session of it.
fn with_session<F: Future<Output = ()> + Send + 'static>(
    (world, ensemble): (Arc<World>, Ensemble),
    work: impl FnOnce(Ensemble, Process, Arc<dyn Coordinator>) -> F + Send + 'static,
) {
    let process = world.process();
    let inside = process.clone();
    run(&process, async move {
        let session = open(&ensemble, &inside).await;
        work(ensemble, inside, session).await;
    });
}

async fn rest(process: &Process, micros: u64) {
    let world = process.world();
    world.sleep_until(world.now() + micros).await;
}

#[test]
fn what_is_under_way_at_a_cut_is_lost_or_arrives_after_all() {
    for arrives in [false, true] {
        with_session(world(1, 1), move |ensemble, process, session| async move {
            let created = session.create("/a", b"", NodeKind::Persistent);
            // The client writes, and nothing has arrived.
            rest(&process, 50).await;
            ensemble.cut(session.session_id(), arrives);
            assert!(!created.await.unwrap_err().is_definite());
            session.sync("/").await.unwrap();
            assert_eq!(session.get("/a").await.is_ok(), arrives);
        });
    }
}

#[test]
fn what_a_dying_leader_told_nobody_is_lost_with_it() {
    for seed in 0..10 {
        with_session(world(seed, 3), move |ensemble, process, _| async move {
            let leader = ensemble.leader().unwrap();
            let session = open_at(&ensemble, &process, leader).await;
            let others: Vec<usize> = (0..3).filter(|other| *other != leader).collect();
            for other in &others {
                ensemble.part(leader, *other, true);
                ensemble.part(*other, leader, true);
            }
            let created = session.create("/a", b"", NodeKind::Persistent);
            rest(&process, 100_000).await;
            ensemble.crash(leader, usize::MAX);
            assert!(!created.await.unwrap_err().is_definite());
            rest(&process, 4 * SECOND).await;
            for other in &others {
                ensemble.part(leader, *other, false);
                ensemble.part(*other, leader, false);
            }
            ensemble.restart(leader);
            rest(&process, 4 * SECOND).await;
            let session = open(&ensemble, &process).await;
            assert_eq!(session.get("/a").await.err(), Some(RequestError::NoNode), "{seed}");
        });
    }
}

#[test]
fn a_leader_that_stands_still_is_replaced_and_follows() {
    for seed in 0..10 {
        with_session(world(seed, 3), |ensemble, process, session| async move {
            let leader = ensemble.leader().unwrap();
            ensemble.freeze(leader, true);
            rest(&process, 5 * SECOND).await;
            assert_ne!(ensemble.leader(), Some(leader));
            ensemble.freeze(leader, false);
            rest(&process, 5 * SECOND).await;
            let there = open_at(&ensemble, &process, leader).await;
            there.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
            drop(session);
        });
    }
}

#[test]
fn a_server_that_differs_goes_on_to_differ() {
    with_session(world(2, 3), |ensemble, process, session| async move {
        let leader = ensemble.leader().unwrap();
        let differs = (leader + 1) % 3;
        ensemble.plant(differs, "/phantom");
        ensemble.crash(leader, 0);
        ensemble.restart(leader);
        rest(&process, 3 * SECOND).await;
        let there = open_at(&ensemble, &process, differs).await;
        there.sync("/").await.unwrap();
        // A leader elects itself with what it shows; here the other one was.
        assert!(there.get("/phantom").await.is_ok());
        drop(session);
    });
}

#[test]
fn who_watches_too_much_loses_its_session_at_a_cut() {
    with_session(world(2, 1), |ensemble, _, session| async move {
        let mut watches = Vec::new();
        for number in 0..40 {
            let path = format!("/{number}{}", "x".repeat(4_000));
            session.create(&path, b"", NodeKind::Persistent).await.unwrap();
            watches.push(session.get_watched(&path).await.unwrap().2);
        }
        ensemble.cut(session.session_id(), false);
        session.link_changed(Link::Up).await;
        let mut link = session.link();
        while !link.is_over() {
            link = session.link_changed(link).await;
        }
        assert_eq!(link, Link::Expired);
    });
}

#[test]
fn a_container_that_nobody_used_goes_where_that_is_asked_for() {
    for (unused, left) in [(None, 1), (Some(2 * SECOND), 0)] {
        let world = World::new(Chooser::random(1), false);
        let options = Options { reap_every: SECOND, reap_unused: unused, ..Options::default() };
        let ensemble = Ensemble::new(&world, options);
        with_session((world, ensemble), move |ensemble, process, session| async move {
            session.create("/a", b"", NodeKind::Container).await.unwrap();
            rest(&process, 5 * SECOND).await;
            assert_eq!(ensemble.nodes("/").len(), left);
        });
    }
}

#[test]
fn numbers_stop_at_the_end_one_by_one_and_wrap_in_flight() {
    with_session(world(1, 1), |ensemble, _, session| async move {
        session.create("/a", b"", NodeKind::Persistent).await.unwrap();
        ensemble.set_sequence("/a", i32::MAX);
        let kind = NodeKind::EphemeralSequential;
        for prefix in ["x", "y"] {
            let created = session.create(&format!("/a/{prefix}-"), b"", kind).await.unwrap();
            assert_eq!(created.path, format!("/a/{prefix}-2147483647"));
        }
        let flight: Vec<_> =
            (0..3).map(|n| session.create(&format!("/a/{n}-"), b"", kind)).collect();
        let mut names = Vec::new();
        for created in flight {
            names.push(created.await.unwrap().path);
        }
        // The second is numbered while the first is under way to the disk, or not.
        assert_eq!(names[0], "/a/0-2147483647");
        let wrapped = ["/a/1--2147483648", "/a/1-2147483647"];
        assert!(wrapped.contains(&names[1].as_str()), "{names:?}");
    });
}
