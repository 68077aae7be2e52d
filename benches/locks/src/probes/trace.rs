//! One cycle, frame by frame: how often an uncontended lock waits for the server.

use std::time::Duration;

use zklock_test_support::{Direction, Frame, OpCode, Proxy, ZooKeeper};

use super::{Plan, side_at};
use crate::drive::Failure;
use crate::goals::Goal;
use crate::sides::Side;
use crate::table::time;
use crate::workload::Shape;

const ONE: Shape = Shape { sessions: 1, tasks: 1, locks: 1 };

/// How long a side runs before it is traced; Java compiles meanwhile.
const WARM_UP: Duration = Duration::from_secs(5);

/// A network of so much towards the server. Without one, the proxy's two threads chase each other:
/// the first request of a flight is answered before the second, in the same packet, is seen.
const NETWORK: Duration = Duration::from_micros(500);

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let server = ZooKeeper::builder().for_measuring().fsync(plan.fsync).start();
    println!("\none cycle of a lock, seen by a proxy before the server (--workload trace)");
    println!("requests take {NETWORK:?} more here, so that those of one flight are seen as one");
    for name in ["create+delete", "create|list+delete", "zklock", "curator"] {
        let proxy = Proxy::start(server.socket_addr());
        proxy.delay_one_way(Direction::ToServer, NETWORK);
        match side_at(&proxy, name, ONE) {
            Ok(side) => trace(name, side, &proxy, plan)?,
            Err(why) => println!("{name} is left out: {why}"),
        }
    }
    Ok(Vec::new())
}

fn trace(name: &str, mut side: Box<dyn Side>, proxy: &Proxy, plan: Plan) -> Result<(), Failure> {
    let part = if plan.quick { 10 } else { 1 };
    side.round(WARM_UP / part)?;
    proxy.clear_log();
    side.round(Duration::from_secs(2) / part)?;
    let mut cycles = cycles(proxy.log());
    cycles.sort_by_key(|cycle| length(cycle));
    let Some(middle) = cycles.get(cycles.len() / 2) else {
        return Err(format!("{name} made no whole cycle").into());
    };
    println!("\n{name}, the middle one of {} cycles:", cycles.len());
    for frame in middle {
        let arrow = if frame.direction == Direction::ToServer { "→" } else { "←" };
        let at = time((frame.at_ns - middle[0].at_ns) as f64);
        println!("{at:>12}  {arrow} {}", word(frame.opcode));
    }
    println!(
        "{} flights; the server commits for {} of {}",
        flights(middle),
        time(commits(middle) as f64),
        time(length(middle) as f64),
    );
    Ok(())
}

fn word(opcode: OpCode) -> String {
    format!("{opcode:?}").to_lowercase()
}

fn is_create(opcode: OpCode) -> bool {
    matches!(opcode, OpCode::Create | OpCode::Create2)
}

/// How often something is sent while nothing is under way.
fn flights(cycle: &[Frame]) -> usize {
    let (mut open, mut flights) = (0_usize, 0);
    for frame in cycle {
        if frame.direction == Direction::ToServer {
            flights += usize::from(open == 0);
            open += 1;
        } else {
            open = open.saturating_sub(1);
        }
    }
    flights
}

/// From the request that creates to the answer to that which deletes.
fn cycles(log: Vec<Frame>) -> Vec<Vec<Frame>> {
    let (mut cycles, mut cycle) = (Vec::new(), Vec::new());
    for frame in log.into_iter().filter(|frame| frame.opcode != OpCode::Ping) {
        if cycle.is_empty() && !(is_create(frame.opcode) && frame.direction == Direction::ToServer)
        {
            continue;
        }
        let ends = frame.opcode == OpCode::Delete && frame.direction == Direction::ToClient;
        cycle.push(frame);
        if ends {
            cycles.push(std::mem::take(&mut cycle));
        }
    }
    cycles
}

fn length(cycle: &[Frame]) -> u64 {
    match cycle {
        [first, .., last] => last.at_ns - first.at_ns,
        _ => 0,
    }
}

/// The time in which the server had something to commit.
fn commits(cycle: &[Frame]) -> u64 {
    let (mut open, mut since, mut sum) = (0_u32, 0, 0);
    for frame in cycle.iter().filter(|f| is_create(f.opcode) || f.opcode == OpCode::Delete) {
        if frame.direction == Direction::ToServer {
            if open == 0 {
                since = frame.at_ns;
            }
            open += 1;
        } else if open > 0 {
            open -= 1;
            if open == 0 {
                sum += (frame.at_ns - since).saturating_sub(NETWORK.as_nanos() as u64);
            }
        }
    }
    sum
}
