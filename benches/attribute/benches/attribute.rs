//! What a call of a guarded function costs: beside the template written by hand, and beside a bare
//! call. On the embedded coordinator; nobody else wants the lock.

// It is a program: what cannot be had ends it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use zklock::{LockError, Session, ZkLockTemplate, zk_locked};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often the sides are measured in turn.
const ROUNDS: usize = 31;
/// How long one measurement lasts.
const SLICE: Duration = Duration::from_millis(20);

type Locked = Result<u64, LockError>;

async fn bare(value: u64) -> Locked {
    Ok(black_box(value) + 1)
}

#[zk_locked("bench")]
async fn attribute(value: u64) -> Locked {
    Ok(black_box(value) + 1)
}

async fn template(value: u64) -> Locked {
    let body = || async move { Ok(black_box(value) + 1) };
    ZkLockTemplate::default().execute("bench", body).await?
}

#[zk_locked("bench/{value}")]
async fn attribute_with_value(value: u64) -> Locked {
    Ok(black_box(value) + 1)
}

async fn template_with_value(value: u64) -> Locked {
    let body = || async move { Ok(black_box(value) + 1) };
    ZkLockTemplate::default().execute(&format!("bench/{value}"), body).await?
}

fn plain_bare(value: u64) -> Locked {
    Ok(black_box(value) + 1)
}

#[zk_locked("bench")]
fn plain_attribute(value: u64) -> Locked {
    Ok(black_box(value) + 1)
}

fn plain_template(value: u64) -> Locked {
    let template = ZkLockTemplate::default();
    template.blocking_execute("bench", || Ok(black_box(value) + 1))?
}

/// A body that holds a kilobyte.
mod big {
    use super::{Locked, ZkLockTemplate, black_box, zk_locked};

    pub(super) async fn bare(value: [u8; 1000]) -> Locked {
        std::future::ready(()).await;
        Ok(u64::from(black_box(value)[7]))
    }

    #[zk_locked("bench")]
    pub(super) async fn attribute(value: [u8; 1000]) -> Locked {
        std::future::ready(()).await;
        Ok(u64::from(black_box(value)[7]))
    }

    pub(super) async fn template(value: [u8; 1000]) -> Locked {
        let body = || async move {
            std::future::ready(()).await;
            Ok(u64::from(black_box(value)[7]))
        };
        ZkLockTemplate::default().execute("bench", body).await?
    }
}

/// One way to make a call.
type Call<'a> = &'a mut dyn FnMut();

/// Nanoseconds a call, for as many calls as fit into a slice.
fn nanoseconds(call: Call<'_>) -> f64 {
    let (started, mut calls) = (Instant::now(), 0_u32);
    loop {
        for _ in 0..64 {
            call();
        }
        calls += 64;
        let spent = started.elapsed();
        if spent > SLICE {
            return spent.as_secs_f64() * 1e9 / f64::from(calls);
        }
    }
}

fn allocations(call: Call<'_>) -> f64 {
    const CALLS: u16 = 1000;
    let region = Region::new(ALLOCATOR);
    for _ in 0..CALLS {
        call();
    }
    region.change().allocations as f64 / f64::from(CALLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures the three in turn, so that what disturbs the machine disturbs all of them.
fn compare(title: &str, bare: Call<'_>, attribute: Call<'_>, template: Call<'_>) {
    let (mut costs, mut ratios) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for _ in 0..ROUNDS {
        let round = [nanoseconds(bare), nanoseconds(attribute), nanoseconds(template)];
        ratios.push(round[1] / round[2]);
        for (all, cost) in costs.iter_mut().zip(round) {
            all.push(cost);
        }
    }
    let [plain, guarded, by_hand] = costs.map(median);
    println!(
        "{title:<32} {plain:>8.1} {guarded:>10.1} {by_hand:>10.1} {:>8.3} {:>7.1} {:>7.1}",
        median(ratios),
        allocations(attribute),
        allocations(template),
    );
}

fn size(title: &str, bare: usize, attribute: usize, template: usize) {
    println!("{title:<32} {bare:>8} {attribute:>10} {template:>10}");
}

fn main() {
    // `cargo bench` passes its own arguments; `cargo test --benches` says `--test`.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    zklock::init(Session::embedded());
    println!("nanoseconds a call (median of {ROUNDS} slices), attribute / template, allocations");
    println!(
        "{:<32} {:>8} {:>10} {:>10} {:>8} {:>7} {:>7}",
        "", "bare", "attribute", "template", "ratio", "a.", "t."
    );
    compare(
        "async, free",
        &mut || drop(black_box(block_on(bare(1)))),
        &mut || drop(black_box(block_on(attribute(1)))),
        &mut || drop(black_box(block_on(template(1)))),
    );
    compare(
        "async, free, value in the name",
        &mut || drop(black_box(block_on(bare(1)))),
        &mut || drop(black_box(block_on(attribute_with_value(1)))),
        &mut || drop(black_box(block_on(template_with_value(1)))),
    );
    let session = zklock::SessionRegistry::global().session(None).unwrap();
    let guard = session.mutex("bench").unwrap().blocking_acquire().unwrap();
    guard.scope_sync(|| {
        compare(
            "async, held by the scope",
            &mut || drop(black_box(block_on(bare(1)))),
            &mut || drop(black_box(block_on(attribute(1)))),
            &mut || drop(black_box(block_on(template(1)))),
        );
        compare(
            "plain, held by the scope",
            &mut || drop(black_box(plain_bare(1))),
            &mut || drop(black_box(plain_attribute(1))),
            &mut || drop(black_box(plain_template(1))),
        );
    });
    guard.blocking_release().unwrap();
    compare(
        "plain, free",
        &mut || drop(black_box(plain_bare(1))),
        &mut || drop(black_box(plain_attribute(1))),
        &mut || drop(black_box(plain_template(1))),
    );
    println!("\nbytes of the future");
    println!("{:<32} {:>8} {:>10} {:>10}", "", "bare", "attribute", "template");
    size(
        "of a small body",
        size_of_val(&bare(1)),
        size_of_val(&attribute(1)),
        size_of_val(&template(1)),
    );
    size(
        "of a body with 1,000 bytes",
        size_of_val(&big::bare([0; 1000])),
        size_of_val(&big::attribute([0; 1000])),
        size_of_val(&big::template([0; 1000])),
    );
}
