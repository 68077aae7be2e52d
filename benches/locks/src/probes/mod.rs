//! What is not a rate: requests, wake-ups, memory, and one cycle or turn frame by frame.

mod constancy;
mod herd;
mod memory;
mod trace;
mod turns;
mod wakeups;

pub(crate) use memory::serve;

use std::cell::RefCell;
use std::rc::Rc;

use zklock_test_support::Proxy;

use crate::drive::Failure;
use crate::goals::Goal;
use crate::sides::{Side, connect, shared, start_curator};
use crate::workload::Shape;

/// What a probe is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Tenths of everything, and no waiting for the disk.
    pub(crate) quick: bool,
    pub(crate) fsync: bool,
}

/// One probe.
pub(crate) struct Probe {
    /// For `--workload`.
    pub(crate) name: &'static str,
    /// Whether it runs when no workload is named.
    pub(crate) usual: bool,
    pub(crate) run: fn(Plan) -> Result<Vec<Goal>, Failure>,
}

/// All probes.
pub(crate) const PROBES: [Probe; 5] = [
    Probe { name: "constancy", usual: true, run: constancy },
    Probe { name: "herd", usual: true, run: herd::run },
    Probe { name: "memory", usual: true, run: memory::run },
    Probe { name: "trace", usual: false, run: trace::run },
    Probe { name: "turns", usual: false, run: turns::run },
];

fn constancy(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let mut goals = constancy::run(plan)?;
    goals.extend(wakeups::run(plan)?);
    Ok(goals)
}

/// Makes a side ready behind a proxy of its own.
fn side_at(proxy: &Proxy, name: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    match name {
        "curator" => {
            let process = start_curator(&proxy.addr(), &["-Xmx128m"])?;
            Ok(shared(Rc::new(RefCell::new(process)), shape))
        }
        name => connect(&proxy.addr(), name, shape),
    }
}
