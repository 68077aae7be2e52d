//! Ten sessions that pass one lock around, frame by frame: what a turn waits for.

use std::time::Duration;

use zklock_test_support::{Direction, Frame, OpCode, Proxy, ZooKeeper};

use super::{Plan, side_at};
use crate::drive::Failure;
use crate::goals::Goal;
use crate::sides::Side;
use crate::table::time;
use crate::workload::Shape;

const TEN: Shape = Shape { sessions: 10, tasks: 1, locks: 1 };

/// How long a side runs before it is traced; Java compiles meanwhile.
const WARM_UP: Duration = Duration::from_secs(5);

/// A notification bears this number.
const NOTIFICATION: i32 = -1;

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let server = ZooKeeper::builder().for_measuring().fsync(plan.fsync).start();
    println!("\na turn of ten sessions, seen by a proxy before the server (--workload turns)");
    println!("the proxy makes each step some 30 µs longer than it is");
    for name in ["zklock", "client-lock", "curator"] {
        let proxy = Proxy::start(server.socket_addr());
        match side_at(&proxy, name, TEN) {
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
    side.round(Duration::from_secs(5) / part)?;
    let mut log = proxy.log();
    log.sort_by_key(|frame| frame.at_ns);
    let log: Vec<_> = log.into_iter().filter(|frame| frame.opcode != OpCode::Ping).collect();
    let turns = turns(&log);
    let mut lengths: Vec<_> = (0..turns.len()).collect();
    lengths.sort_by_key(|turn| turns[*turn].length());
    let Some(middle) = lengths.get(lengths.len() / 2).map(|turn| &turns[*turn]) else {
        return Err(format!("{name} made no whole turn").into());
    };
    println!("\n{name}, the middle one of {} turns:", turns.len());
    for frame in &log[middle.frames.clone()] {
        let who = match frame.connection {
            of if of == middle.last => "who releases".to_owned(),
            of if of == middle.next => "who is next".to_owned(),
            of => format!("session {of}"),
        };
        let arrow = if frame.direction == Direction::ToServer { "→" } else { "←" };
        let at = time((frame.at_ns - middle.asked) as f64);
        println!("{at:>12}  {arrow} {:<12} {who}", word(frame));
    }
    let say = |what: &str, step: fn(&Turn) -> Option<u64>| {
        let mut all: Vec<_> = turns.iter().filter_map(step).collect();
        all.sort_unstable();
        if let Some(median) = all.get(all.len() / 2) {
            println!("{:>12}  {what} ({} turns)", time(*median as f64), all.len());
        }
    };
    println!("medians:");
    say("a turn, from one deletion asked for to the next", |turn| Some(turn.length()));
    say("from there to the word of it", |turn| Some(turn.told - turn.asked));
    say("the same, where no creation was being written", |turn| {
        (!turn.creating).then_some(turn.told - turn.asked)
    });
    say("the same, where one was", |turn| turn.creating.then_some(turn.told - turn.asked));
    say("from the word to the list asked for", |turn| Some(turn.list?.0 - turn.told));
    say("to its answer, where no creation was being written", |turn| {
        turn.list.filter(|list| !list.2).map(|list| list.1 - list.0)
    });
    say("the same, where one was", |turn| {
        turn.list.filter(|list| list.2).map(|list| list.1 - list.0)
    });
    say("from the list, or the word, to the next deletion asked for", |turn| {
        Some(turn.over - turn.list.map_or(turn.told, |list| list.1))
    });
    Ok(())
}

fn word(frame: &Frame) -> String {
    match frame.xid {
        NOTIFICATION => "notification".to_owned(),
        _ => format!("{:?}", frame.opcode).to_lowercase(),
    }
}

/// From the request that deletes a holder's node to that of the next holder.
struct Turn {
    frames: std::ops::Range<usize>,
    /// Connections.
    last: u64,
    next: u64,
    asked: u64,
    /// When the next was told.
    told: u64,
    /// When the next asked for a list and was answered, and whether a creation was under way then.
    list: Option<(u64, u64, bool)>,
    over: u64,
    /// Whether a creation was under way when the deletion was asked for.
    creating: bool,
}

impl Turn {
    fn length(&self) -> u64 {
        self.over - self.asked
    }
}

fn turns(log: &[Frame]) -> Vec<Turn> {
    let is = |frame: &Frame, opcode, direction| {
        frame.opcode == opcode && frame.direction == direction && frame.xid != NOTIFICATION
    };
    let deletions: Vec<_> =
        (0..log.len()).filter(|at| is(&log[*at], OpCode::Delete, Direction::ToServer)).collect();
    // Creations that are not answered yet, before each frame.
    let mut creating = Vec::with_capacity(log.len());
    let mut open = 0_u32;
    for frame in log {
        creating.push(open > 0);
        if matches!(frame.opcode, OpCode::Create | OpCode::Create2) {
            match frame.direction {
                Direction::ToServer => open += 1,
                Direction::ToClient => open = open.saturating_sub(1),
            }
        }
    }
    let turn = |(from, to): (usize, usize)| {
        let (last, next) = (log[from].connection, log[to].connection);
        let mine = |at: &usize| log[*at].connection == next;
        let told = (from..to).filter(mine).find(|at| log[*at].xid == NOTIFICATION)?;
        let lists = |direction| {
            (told..to).filter(mine).find(|at| {
                let list = [OpCode::GetChildren, OpCode::GetChildren2];
                list.contains(&log[*at].opcode) && log[*at].direction == direction
            })
        };
        let list = lists(Direction::ToServer).zip(lists(Direction::ToClient));
        Some(Turn {
            frames: from..to + 1,
            last,
            next,
            asked: log[from].at_ns,
            told: log[told].at_ns,
            list: list.map(|(asked, heard)| (log[asked].at_ns, log[heard].at_ns, creating[asked])),
            over: log[to].at_ns,
            creating: creating[from],
        })
    };
    deletions.windows(2).map(|pair| (pair[0], pair[1])).filter_map(turn).collect()
}
