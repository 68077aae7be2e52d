//! The same scripts on the simulated ensemble and on real ZooKeeper, of one server and of three.
//!
//! `ZKLOCK_SCRIPTS=10000 cargo test --release -p zklock-simulation --test conformance` runs so many in
//! all, which is also what the long form of the tests does; `ZKLOCK_SEED=17` runs the one of a seed.
//! Where a script differs, it is printed with what both saw: `M` is the model, `R` the real server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zklock_simulation::conformance::{Class, Script, Simulated, play};
use zklock_test_support::{Ensemble, ZooKeeper, is_long};

use real::{Real, Site};

/// How many scripts run at a time. They wait most of the time.
const WORKERS: u64 = 6;

/// The seeds to run: those of the long form, a number of them, or a single one.
fn seeds(short: u64, share: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ZKLOCK_SEED") {
        return seed..seed + 1;
    }
    let all = number("ZKLOCK_SCRIPTS").or(is_long().then_some(10_000));
    0..all.map_or(short, |all| all * share / 100)
}

/// Runs all scripts of some seeds on both, several at a time, and shows the first that differs.
fn compare(site: &Arc<Site>, servers: usize, class: Class, seeds: std::ops::Range<u64>) {
    let (next, end) = (Arc::new(AtomicU64::new(seeds.start)), seeds.end);
    let differing = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (site, next, differing) = (site.clone(), next.clone(), differing.clone());
            thread::spawn(move || {
                let bed = Real::new(site);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || differing.lock().unwrap().len() >= 3 {
                        return;
                    }
                    let script = Script::new(seed, class);
                    let model = Simulated::run(&script, servers, seed).lines();
                    let real = futures_lite::future::block_on(play(&script, &bed)).lines();
                    if model != real {
                        differing.lock().unwrap().push((seed, script, model, real));
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let differing = std::mem::take(&mut *differing.lock().unwrap());
    for (seed, script, model, real) in &differing {
        println!("seed {seed} of {class:?} on {servers} servers differs: {:?}", script.access);
        for (number, step) in script.steps.iter().enumerate() {
            println!("  step {number}: {step:?}");
        }
        let longest = model.len().max(real.len());
        for at in 0..longest {
            let (model, real) = (model.get(at), real.get(at));
            if model == real {
                println!("    {}", model.map_or("", String::as_str));
            } else {
                println!("  M {}", model.map_or("", String::as_str));
                println!("  R {}", real.map_or("", String::as_str));
            }
        }
    }
    assert!(differing.is_empty(), "{} scripts differ", differing.len());
    println!(
        "{} scripts alike, {:?} on {servers}, {:?}",
        end - seeds.start,
        class,
        start.elapsed()
    );
}

/// Long enough that no container is deleted while scripts run that know of no such deletion.
const HOUR: Duration = Duration::from_secs(3_600);

/// One server, with as many directories that are nearly full as there are scripts for them.
fn alone(full: &std::ops::Range<u64>) -> Site {
    let mut server = ZooKeeper::builder().container_check(HOUR);
    for number in 0..full.end {
        server = server.sequence(&format!("/full{number}"), i32::MAX - 2);
    }
    Site::alone(server.start())
}

#[test]
fn one_server_answers_as_the_simulated_one() {
    let full = seeds(6, 5);
    let site = Arc::new(alone(&full));
    compare(&site, 1, Class::Usual, seeds(100, 67));
    compare(&site, 1, Class::Full, full);
}

#[test]
fn three_servers_answer_as_the_simulated_ones() {
    let ensemble: Ensemble = ZooKeeper::builder().container_check(HOUR).ensemble(3);
    let site = Arc::new(Site::three(ensemble));
    compare(&site, 3, Class::Usual, seeds(50, 20));
}

#[test]
fn sessions_expire_as_in_the_simulation() {
    let site = Arc::new(Site::alone(ZooKeeper::builder().container_check(HOUR).start()));
    compare(&site, 1, Class::Expiry, seeds(6, 3));
}

#[test]
fn sessions_expire_on_three_servers_as_in_the_simulation() {
    let ensemble: Ensemble = ZooKeeper::builder().container_check(HOUR).ensemble(3);
    let site = Arc::new(Site::three(ensemble));
    compare(&site, 3, Class::Expiry, seeds(3, 3));
}

#[test]
fn containers_go_as_in_the_simulation() {
    let server = ZooKeeper::builder().container_check(Duration::from_millis(300)).start();
    let site = Arc::new(Site::alone(server));
    compare(&site, 1, Class::Reaping, seeds(6, 2));
}
