//! What `release` says where no answer arrives: its node is gone by then.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use futures_lite::future::poll_once;
use zklock_core::base::options::LockOptions;
use zklock_core::layout::OneNode;
use zklock_core::session::{Session, SessionBuilder};
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Access, Connecting, Ensemble, Options};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;

/// In microseconds: the session timeout, and the tick of the servers.
const T: u64 = 4_000_000;
const TICK: u64 = 400_000;

/// What a few steps of the simulation take, whose timers count in milliseconds.
const STEPS: u64 = 2_000;

/// When the network falls silent.
const SILENT: u64 = 2 * T;

/// Which deletion it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A node with a path of its own.
    Node,
    /// A node at a path that recurs, which is looked at first.
    OneNode,
    /// A node and the mark of its holder, which may be looked at.
    Marked,
}

/// What happens beside the silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// The session is closed.
    Close,
    /// Another node of the session could not be deleted, so that the session is to be closed.
    Retired,
    /// The network is there again, for so long and from this moment after it fell silent.
    Blink(u64, u64),
    /// Both.
    RetiredBlink(u64, u64),
    /// Instead of the silence, the connection is cut so long after the release began, whose caller looks
    /// again after two session timeouts.
    Cut(u64),
}

#[derive(Debug)]
struct Case {
    servers: usize,
    of: Of,
    beside: Beside,
    /// Whether requests do not arrive either.
    requests: bool,
    /// When the lock is released.
    at: u64,
}

/// What a release says, how long it takes, and for how much longer the node is there; not counted where a server
/// heard that the client is back, and the client not that it was heard (`docs/lost.md`).
fn release(case: &Case) -> (bool, u64, Option<u64>) {
    let Case { servers, of, beside, requests, at } = *case;
    let world = World::new(Chooser::random(at), true);
    let options = Options { servers, tick: TICK, sync_limit: 20, ..Options::default() };
    let ensemble = Ensemble::new(&world, options);
    let process = world.process();
    let connector = ensemble.connector(&process, Connecting::new(Duration::from_micros(T)));
    let builder = Session::simulated_builder(connector, Host::of(&process));
    let builder = builder.tick_time(Duration::from_micros(TICK)).max_connections(1);
    let with = |builder: SessionBuilder| match of {
        Of::Node => builder,
        Of::OneNode => builder.driver(OneNode),
        Of::Marked => builder.defaults(LockOptions::new().lock_delay(Duration::from_millis(100))),
    };
    let session = with(builder).open().unwrap();
    let (tell, told) = mpsc::channel();
    let (asleep, here, other) = (world.clone(), session.clone(), ensemble.clone());
    let its = process.clone();
    process.spawn(async move {
        let guard = here.mutex("orders").unwrap().acquire().await.unwrap();
        let node = (guard.node_path().to_owned(), guard.fencing_token().czxid() as i64);
        asleep.sleep_until(at).await;
        let mut releasing = pin!(guard.release());
        if let Beside::Cut(after) = beside {
            assert!(poll_once(&mut releasing).await.is_none());
            asleep.sleep_until(at + after).await;
            other.cut_process(&its);
            asleep.sleep_until(at + 2 * T).await;
        }
        let released = releasing.await.is_ok();
        tell.send((node, released, asleep.now())).unwrap();
        // The servers end the session, and not this.
        asleep.sleep_until(at + 10 * T).await;
        drop(here);
    });
    let (asleep, other) = (world.clone(), ensemble.clone());
    process.spawn(async move {
        if let Beside::Retired | Beside::RetiredBlink(..) = beside {
            let guard = session.mutex("bills").unwrap().acquire().await.unwrap();
            asleep.sleep_until(SILENT - T / 8).await;
            other.restrict("/zklock/bills", Access::ReadOnly(1));
            guard.release().await.unwrap_err();
        }
        asleep.sleep_until(at).await;
        if beside == Beside::Close {
            session.close().await;
        }
    });
    let turns = match beside {
        Beside::Blink(from, long) | Beside::RetiredBlink(from, long) => {
            vec![(SILENT, true), (SILENT + from, false), (SILENT + from + long, true)]
        }
        Beside::Cut(_) => Vec::new(),
        Beside::Nothing | Beside::Close | Beside::Retired => vec![(SILENT, true)],
    };
    for (when, silent) in turns {
        let (network, process) = (ensemble.clone(), process.clone());
        world.at(when, move || {
            let block = |server| network.block(&process, server, silent && requests, silent);
            (0..servers).for_each(block);
        });
    }
    while world.now() < at + 6 * T && world.step() {}
    let ((path, czxid), released, back) = told.try_recv().unwrap();
    let gone = ensemble.life(&path, Some(czxid)).unwrap().gone.unwrap().0;
    let lines = world.take_lines();
    let told = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let blinks = matches!(beside, Beside::Blink(..));
    let is_unheard = blinks && told(": Accepted") > told(": Connected {");
    let later = gone.checked_sub(back).filter(|later| *later > 0 && !is_unheard);
    (released, back - at, later)
}

/// Releases around the moment at which the network falls silent, and in the time after it. Says how often
/// one said that it had released the lock.
fn releases(step: usize, servers: usize, of: Of, beside: Beside, requests: bool, most: u64) -> u32 {
    let moments = (SILENT - 1_000..SILENT + T / 2).step_by(step);
    moments.map(|at| u32::from(holds(&Case { servers, of, beside, requests, at }, most))).sum()
}

/// Whether a release said that it had released the lock; its node was gone by then.
fn holds(case: &Case, most: u64) -> bool {
    let (released, took, later) = release(case);
    assert!(!released || later.is_none(), "{case:?}: the node was there for {later:?} µs more");
    assert!(took <= most + STEPS, "{case:?}: {took} µs");
    released
}

#[test]
fn a_release_that_nobody_answers_comes_back_when_the_node_is_gone_and_not_long_after() {
    for servers in [1, 3] {
        for of in [Of::Node, Of::OneNode, Of::Marked] {
            for requests in [false, true] {
                // What is looked at before it is deleted may never be sent its deletion.
                let gives_up = if of == Of::Node { 0 } else { T / 2 };
                let most = T + 2 * TICK + gives_up;
                assert!(releases(45_011, servers, of, Beside::Nothing, requests, most) > 0);
            }
        }
    }
}

#[test]
fn so_it_does_while_its_session_is_closed() {
    for of in [Of::Node, Of::OneNode, Of::Marked] {
        for beside in [Beside::Close, Beside::Retired] {
            for requests in [false, true] {
                assert!(releases(45_011, 1, of, beside, requests, 3 * T) > 0);
            }
        }
    }
}

/// The session lives on from then on, and the client gives it up as if the connection had not been back.
#[test]
fn so_it_does_where_the_network_is_back_for_a_moment() {
    for of in [Of::Node, Of::Marked] {
        for from in (T / 8..T * 3 / 2).step_by(270_009) {
            releases(300_011, 1, of, Beside::Blink(from, 900), true, 4 * T);
        }
    }
}

/// The connection is lost before the release begins, and is back for a moment after that.
#[test]
fn so_it_does_in_a_session_that_is_used_no_more_where_the_network_is_back_for_a_moment() {
    let mut released = 0;
    for of in [Of::Node, Of::OneNode] {
        for from in (T * 7 / 10..T * 27 / 20).step_by(130_009) {
            let (beside, at) = (Beside::RetiredBlink(from, 900), SILENT + T * 12 / 25);
            released +=
                u32::from(holds(&Case { servers: 1, of, beside, requests: true, at }, 4 * T));
        }
    }
    assert!(released > 0);
}

/// As where its thread is blocked: the request is lost, and the client keeps the session alive.
#[test]
fn so_it_does_where_its_caller_looks_late() {
    for of in [Of::Node, Of::OneNode, Of::Marked] {
        for after in (0..1_000).step_by(90) {
            let case =
                Case { servers: 1, of, beside: Beside::Cut(after), requests: true, at: SILENT };
            assert!(holds(&case, 3 * T));
        }
    }
}
