//! What is known from a look that was answered long ago, because the answer to the sync before it was lost.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use zklock_core::layout::OneNode;
use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Gone, Options, Weather};
use zklock_simulation::executor::{Process, World};
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(10);

/// In microseconds.
const SECOND: u64 = 1_000_000;

/// Who lets go of the lock at this moment, or breaks it.
const LETS_GO: u64 = 2 * SECOND;

/// A session in the layout whose nodes have one path.
fn open(ensemble: &Ensemble, process: &Process) -> Session {
    let connector = ensemble.connector(process, Connecting::new(T));
    let builder = Session::simulated_builder(connector, Host::of(process));
    builder.tick_time(T / 5).max_connections(1).driver(OneNode).open().unwrap()
}

/// The first holder is broken while it lets go, and answers to both are swallowed; another one holds the
/// lock 50 ms later. Whether somebody else has deleted that one's node.
fn is_robbed(seed: u64) -> bool {
    let world = World::new(Chooser::random(seed), false);
    let ensemble = Ensemble::new(&world, Options { tick: 2 * SECOND, ..Options::default() });
    let [first, second, other] = [world.process(), world.process(), world.process()];
    let (here, asleep) = (open(&ensemble, &first), world.clone());
    first.spawn(async move {
        let guard = here.mutex("orders").unwrap().acquire().await.unwrap();
        asleep.sleep_until(LETS_GO).await;
        drop(guard.release().await);
        asleep.sleep_until(100 * SECOND).await;
        drop(here);
    });
    let (here, asleep) = (open(&ensemble, &other), world.clone());
    other.spawn(async move {
        asleep.sleep_until(SECOND).await;
        let site = here.site("orders").unwrap();
        let queue = site.contenders().await.unwrap();
        asleep.sleep_until(LETS_GO).await;
        drop(site.break_holder(&queue[0]).await);
        asleep.sleep_until(100 * SECOND).await;
        drop(here);
    });
    let (here, asleep) = (open(&ensemble, &second), world.clone());
    second.spawn(async move {
        asleep.sleep_until(LETS_GO + SECOND / 20).await;
        let guard = here.mutex("orders").unwrap().acquire().await.unwrap();
        asleep.sleep_until(LETS_GO + 5 * SECOND).await;
        drop(guard.release().await);
        asleep.sleep_until(100 * SECOND).await;
        drop(here);
    });
    for (at, forgets) in [(LETS_GO - SECOND / 100, 300), (LETS_GO + SECOND / 20, 0)] {
        let network = ensemble.clone();
        world.at(at, move || network.set_weather(Weather { forgets, ..Weather::default() }));
    }
    // An outsider makes room for the next one, who may come before the first knows that its node is gone.
    let outside = ensemble.clone();
    world.at(LETS_GO + SECOND / 50, move || {
        let path = "/zklock/orders/lock".to_owned();
        outside.outsider(zklock_core::coordinator::operation::Operation::Delete { path });
    });
    while world.now() < LETS_GO + 4 * SECOND && world.step() {}
    ensemble.lives().iter().any(|life| {
        let by_another = matches!(life.gone, Some((_, Gone::Deleted { by })) if by != life.owner);
        by_another && life.born > LETS_GO + SECOND / 20
    })
}

#[test]
fn who_breaks_a_lock_deletes_no_node_that_came_while_an_answer_was_awaited() {
    assert_eq!((0..60).filter(|seed| is_robbed(*seed)).collect::<Vec<_>>(), [0; 0]);
}
