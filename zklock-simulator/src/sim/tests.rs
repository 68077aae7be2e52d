use std::error::Error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zklock_core::session::SessionBuilder;

use super::{sim, sim_with_servers};

#[test]
#[should_panic(expected = "an assertion in a handler")]
fn a_handler_that_panics_fails_the_test_also_where_nobody_waits_for_it() {
    sim(7, async |world| {
        let _running = world.process().run::<()>(async { panic!("an assertion in a handler") });
        world.sleep(Duration::from_secs(60)).await;
    });
}

#[test]
#[should_panic(expected = "an assertion in a handler")]
fn a_handler_that_panics_fails_the_test_also_where_its_process_crashes_later() {
    sim(7, async |world| {
        let process = world.process();
        drop(process.run::<()>(async { panic!("an assertion in a handler") }));
        world.sleep(Duration::from_secs(60)).await;
        process.crash();
    });
}

#[test]
fn a_panic_that_the_test_was_told_of_does_not_fail_it() {
    sim(7, async |world| {
        let mut running = world.process().run::<()>(async { panic!("on purpose") });
        let told = poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut running).poll(cx)));
            polled.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
        });
        let panic = told.await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    });
}

#[test]
#[should_panic(expected = "1 tasks of the library panicked")]
fn a_task_of_the_library_that_panics_fails_the_test() {
    sim(7, async |world| {
        world.0.inner.process().spawn(async { panic!("as a defect might") });
        world.sleep(Duration::from_secs(60)).await;
    });
}

/// The clocks of its machine do not see the pause, so the lease seems to last. That nobody else holds the lock
/// meanwhile is not promised.
#[test]
fn a_machine_that_its_hypervisor_pauses_learns_of_its_loss_from_the_server() {
    for seed in 0..20 {
        sim(seed, async |world| {
            let [one, other] = [world.process(), world.process()];
            let held = one.session().mutex("orders").unwrap().acquire().await.unwrap();
            one.pause();
            one.drift(-999_999);
            let next = other.session().mutex("orders").unwrap().acquire().await.unwrap();
            one.drift(0);
            one.resume();
            assert!(held.is_valid() && next.is_valid());
            assert!(held.fencing_token() < next.fencing_token());

            let resumed = world.elapsed();
            held.lost().await;
            assert!(world.elapsed() - resumed < Duration::from_secs(6));
        });
    }
}

#[test]
fn a_process_has_the_times_that_it_is_given() {
    let [session_timeout, second] = [20, 1].map(Duration::from_secs);
    sim(7, async |world| {
        let times = |session: SessionBuilder| {
            session.session_timeout(session_timeout).connect_timeout(second)
        };
        let process = world.process_with(times);
        let _held = process.session().mutex("orders").unwrap().acquire().await.unwrap();
        assert_eq!(process.session().timing().unwrap().session_timeout, session_timeout);

        // Who waits longer than one attempt to connect is told why it failed.
        world.begin_outage();
        for is_given in [true, false] {
            let process = if is_given { world.process_with(times) } else { world.process() };
            let orders = process.session().mutex("orders").unwrap();
            let error = orders.acquire_timeout(3 * second).await.unwrap_err();
            assert_eq!(error.source().is_some(), is_given, "{error:#}");
        }
    });
}

#[test]
#[should_panic(expected = "between 1 ms and 24 days")]
fn a_session_timeout_that_the_protocol_cannot_carry_is_refused() {
    sim(7, async |world| {
        drop(world.process_with(|session| session.session_timeout(Duration::MAX)))
    });
}

/// The guide says how long an outage may be, and the documentation of the session timeout how long a crash keeps a lock.
#[test]
fn leases_and_crashes_last_as_long_as_in_production() {
    let mut longest = Duration::ZERO;
    for seed in 0..20 {
        sim(seed, async |world| {
            let [one, other] = [world.process(), world.process()];
            let _held = one.session().mutex("orders").unwrap().acquire().await.unwrap();
            let timing = one.session().timing().unwrap();
            assert_eq!(timing.lease, Duration::from_millis(5_500));
            one.crash();
            let crashed = world.elapsed();
            let _next = other.session().mutex("orders").unwrap().acquire().await.unwrap();
            longest = longest.max(world.elapsed() - crashed);
        });
    }
    let [timeout, tick] = [10, 2].map(Duration::from_secs);
    assert!(timeout + tick / 4 < longest && longest < timeout + 2 * tick, "{longest:?}");
}

/// The documentation says what delays the next grant where a leader is not dead.
#[test]
fn a_leader_that_nobody_hears_is_noticed_after_five_ticks() {
    for seed in 0..5 {
        sim_with_servers(3, seed, async |world| {
            let [one, other] = [world.process(), world.process()];
            let held = one.session().mutex("orders").unwrap().acquire().await.unwrap();
            let (leader, begun) = (world.0.ensemble.leader().unwrap(), world.elapsed());
            (0..3).filter(|server| *server != leader).for_each(|server| world.part(leader, server));
            let _next = other.session().mutex("others").unwrap().acquire().await.unwrap();
            let took = (world.elapsed() - begun).as_secs_f64();
            assert!((10.0..15.0).contains(&took) && !held.is_valid(), "{took}");
        });
    }
}

#[test]
fn who_is_cut_off_stays_so_at_the_end_of_an_outage_and_who_reconnects_waits_for_it() {
    let second = Duration::from_secs(1);
    sim(7, async |world| {
        let [one, other] = [world.process(), world.process()];
        let [orders, others] = [&one, &other].map(|one| one.session().mutex("orders").unwrap());
        one.cut_off();
        other.cut_off();
        world.begin_outage();
        other.reconnect();
        assert!(others.acquire_timeout(second).await.is_err_and(|error| error.is_unavailable()));
        world.end_outage();
        assert!(
            orders.acquire_timeout(60 * second).await.is_err_and(|error| error.is_unavailable())
        );
        assert!(others.acquire().await.unwrap().is_valid());
        one.reconnect();
        assert!(orders.acquire().await.unwrap().is_valid());
    });
}
