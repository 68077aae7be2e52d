//! What goes wrong in a schedule, and when it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zklock_core::coordinator::operation::Operation;

use crate::ensemble::Access;
use crate::executor::{Process, World};
use crate::profile::Faults;
use crate::rules::ASKED;
use crate::schedule::Scene;
use crate::workload::{BESIDE, Layout, LockPlan, MOST_PERMITS};

/// A fault: from when, and for how long.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: Kind,
    process: usize,
    server: usize,
    lock: usize,
    long: u64,
    which: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    CutOff,
    OneWay,
    Pause,
    Cut,
    Crash,
    Freeze,
    ServerCrash,
    Part,
    Link,
    Lose,
    Kill,
    Delete,
    Set,
    Clear,
    Wish,
    Contend,
    Limit,
    Close,
    Refuse,
    Plant,
    Numbers,
    Blink,
    Deafen,
    Protect,
    Hush,
    Lapse,
    Late,
    Doze,
    Full,
    Blank,
}

const USUAL: [Kind; 18] = [
    Kind::CutOff,
    Kind::OneWay,
    Kind::Pause,
    Kind::Cut,
    Kind::Crash,
    Kind::Freeze,
    Kind::ServerCrash,
    Kind::Part,
    Kind::Kill,
    Kind::Delete,
    Kind::Set,
    Kind::Clear,
    Kind::Close,
    Kind::Wish,
    Kind::Limit,
    Kind::Contend,
    Kind::Link,
    Kind::Lose,
];

const OUTSIDERS: [Kind; 7] =
    [Kind::Delete, Kind::Set, Kind::Kill, Kind::Clear, Kind::Wish, Kind::Limit, Kind::Contend];

const SILENCE: [Kind; 9] = [
    Kind::Part,
    Kind::CutOff,
    Kind::OneWay,
    Kind::Pause,
    Kind::Freeze,
    Kind::ServerCrash,
    Kind::Part,
    Kind::Link,
    Kind::Lose,
];

const LOSSES: [Kind; 5] = [Kind::CutOff, Kind::Pause, Kind::Crash, Kind::Kill, Kind::Close];

const ODD: [Kind; 6] =
    [Kind::Refuse, Kind::Plant, Kind::Numbers, Kind::CutOff, Kind::Close, Kind::Limit];

const CUTS: [Kind; 8] = [
    Kind::CutOff,
    Kind::OneWay,
    Kind::Cut,
    Kind::Blink,
    Kind::Blink,
    Kind::Blink,
    Kind::Close,
    Kind::Refuse,
];

const CLEARS: [Kind; 3] = [Kind::Clear, Kind::Clear, Kind::Delete];

const REFUSALS: [Kind; 4] = [Kind::Refuse, Kind::Refuse, Kind::Limit, Kind::Close];

const HELD: [Kind; 5] = [Kind::Protect, Kind::Protect, Kind::Delete, Kind::Set, Kind::Wish];

const SEVERAL: [Kind; 12] = [
    Kind::Hush,
    Kind::Hush,
    Kind::CutOff,
    Kind::OneWay,
    Kind::Pause,
    Kind::Cut,
    Kind::Blink,
    Kind::Freeze,
    Kind::ServerCrash,
    Kind::Part,
    Kind::Link,
    Kind::Lose,
];

/// Plans the faults of a schedule. The answer is the moment at which the last is over.
pub(crate) fn plan(scene: &Arc<Scene>) -> u64 {
    let (world, profile) = (&scene.world, &scene.crew.profile);
    let kinds: &[Kind] = match profile.kinds_of_faults {
        Faults::Usual => &USUAL,
        Faults::Outsiders => &OUTSIDERS,
        Faults::Silence => &SILENCE,
        Faults::Losses => &LOSSES,
        Faults::Odd => &ODD,
        Faults::Pauses => &[Kind::Pause],
        Faults::Cuts => &CUTS,
        Faults::Deaf => &[Kind::Deafen],
        Faults::Clears => &CLEARS,
        Faults::Blanks => &[Kind::Blank],
        Faults::Refusals => &REFUSALS,
        Faults::Held => &HELD,
        Faults::Closes => &[Kind::Close],
        Faults::Lapses => &[Kind::Lapse],
        Faults::Late => &[Kind::Late],
        Faults::Dozes => &[Kind::Doze],
        Faults::Hush => &[Kind::Hush],
        Faults::Several => &SEVERAL,
        Faults::Full => &[Kind::Full],
        Faults::Strays => &[Kind::Plant],
        Faults::Breaks => &[Kind::Cut],
        Faults::Doubts => &[Kind::Cut, Kind::Cut, Kind::Cut, Kind::Cut, Kind::CutOff, Kind::Pause],
    };
    // A server alone has no other that it can be parted from.
    let alone = scene.store.ensemble().size() == 1;
    let of_several = |kind: &Kind| matches!(kind, Kind::Part | Kind::Link | Kind::Lose);
    let kinds: Vec<Kind> =
        kinds.iter().copied().filter(|kind| !(alone && of_several(kind))).collect();
    let timeout = scene.crew.timeout;
    // How long a server stays cut off.
    let parted = match profile.kinds_of_faults {
        Faults::Late | Faults::Dozes => 2 * timeout,
        _ => 0,
    };
    let mut end = 500_000.max(u64::from(profile.lasts) * timeout);
    let mut before = 0;
    for _ in 0..world.choose(profile.faults + 1) {
        // Together with the last one, or at any time.
        let at = match world.choose(3) {
            1 => before,
            _ => u64::from(world.choose(100)) * timeout / 200 * u64::from(profile.lasts.max(1)),
        };
        before = at;
        // Of those who have sessions by then.
        let deaf = profile.kinds_of_faults == Faults::Deaf;
        let at = if deaf { at + timeout / 2 } else { at };
        let long = match profile.kinds_of_faults {
            // About as long as the thresholds of those who notice.
            Faults::Cuts => u64::from(1 + world.choose(80)) * timeout / 40,
            // Longer than a session lasts.
            Faults::Deaf => u64::from(40 + world.choose(20)) * timeout / 40,
            // Longer than a client waits for an answer, and shorter than a lease lasts.
            Faults::Dozes => u64::from(40 + world.choose(36)) * timeout / 100,
            // Longer than another session of the process needs to notice.
            Faults::Full => u64::from(2 + world.choose(4)) * timeout,
            // For nearly as long as a client stays on a silent connection.
            Faults::Late => u64::from(21 + world.choose(5)) * timeout / 100,
            Faults::Pauses | Faults::Lapses => u64::from(1 + world.choose(60)) * timeout / 40,
            _ => [4, 8, 15, 24][world.choose(4) as usize] * timeout / 12,
        };
        let fault = Fault {
            kind: kinds[world.choose(kinds.len() as u32) as usize],
            process: world.choose(profile.processes) as usize,
            server: world.choose(scene.store.ensemble().size() as u32) as usize,
            lock: world.choose(profile.locks) as usize,
            long,
            which: world.choose(4),
        };
        end = end.max(at + long + parted + 100_000);
        let scene = scene.clone();
        world.at(at, move || strike(&scene, fault));
    }
    end
}

fn later(world: &Arc<World>, after: u64, call: impl FnOnce() + Send + 'static) {
    world.at(world.now() + after, call);
}

fn strike(scene: &Arc<Scene>, fault: Fault) {
    let (world, store) = (&scene.world, &scene.store);
    let ensemble = store.ensemble();
    let process = scene.process(fault.process);
    let until = world.now() + fault.long;
    match fault.kind {
        Kind::CutOff => {
            store.disturb(until);
            cut_off(scene, &process, (true, true), fault.long);
        }
        Kind::OneWay => {
            store.disturb(until);
            let ways = if fault.which.is_multiple_of(2) { (true, false) } else { (false, true) };
            cut_off(scene, &process, ways, fault.long);
        }
        Kind::Pause => {
            store.disturb(until);
            stand_still(scene, process, fault.long);
        }
        // Its requests are on their way, and it does not see when its leases run out.
        Kind::Lapse => {
            let first = 20_000 << fault.which;
            store.disturb(until + first);
            cut_off(scene, &process, (true, true), first + fault.long);
            let scene = scene.clone();
            later(world, first, move || stand_still(&scene, process, fault.long));
        }
        // One to which it is connected, before that has told its leader whom it has heard.
        Kind::Late => {
            let servers = ensemble.servers_of(&process);
            let leader = ensemble.leader();
            let follower = servers.into_iter().find(|server| Some(*server) != leader);
            let until = just_told(scene, until);
            store.disturb(until);
            cut_off(scene, &process, (true, true), until - world.now());
            if let Some(server) = follower {
                cut_follower_off(scene, process, server, until);
            }
        }
        // It stands still while the server to which it goes answers that it may go on.
        Kind::Doze => {
            let leader = ensemble.leader();
            let size = ensemble.size();
            let followers: Vec<_> = (0..size).filter(|server| Some(*server) != leader).collect();
            let Some(server) = followers.get(fault.which as usize % followers.len().max(1)) else {
                return;
            };
            // As long as until the question is under way, or less.
            let first = u64::from(world.choose(10)) * 400;
            let until = just_told(scene, until + first);
            store.disturb(until);
            ensemble.reroute(&process, *server);
            for session in ensemble.sessions_of(&process) {
                ensemble.cut(session, true);
            }
            cut_follower_off(scene, process.clone(), *server, until);
            let (scene, long) = (scene.clone(), until - world.now() - first);
            later(world, first, move || stand_still(&scene, process, long));
        }
        Kind::Cut => {
            store.disturb(0);
            for session in ensemble.sessions_of(&process) {
                ensemble.cut(session, fault.which % 2 == 1);
            }
        }
        Kind::Crash => {
            store.disturb(until);
            world.say(|| format!("FAULT {}: crashes", process.id()));
            process.crash();
            scene.start(fault.process);
        }
        // One thing at a time befalls a server.
        Kind::Freeze | Kind::ServerCrash | Kind::Part
            if scene.are_struck(&[fault.server], until) => {}
        Kind::Freeze => {
            store.strike_server(until);
            ensemble.freeze(fault.server, true);
            let scene = scene.clone();
            later(world, fault.long, move || scene.store.ensemble().freeze(fault.server, false));
        }
        Kind::ServerCrash => {
            store.strike_server(until);
            ensemble.crash(fault.server, fault.which as usize);
            let scene = scene.clone();
            later(world, fault.long, move || scene.store.ensemble().restart(fault.server));
        }
        Kind::Part => {
            store.strike_server(until);
            part(scene, fault.server, fault.which.is_multiple_of(2), fault.long);
        }
        // Two of three, in both directions or in one; the third hears both.
        Kind::Link => {
            let size = ensemble.size();
            let (one, other) = (fault.server, (fault.server + 1) % size);
            if scene.are_struck(&[one, other], until) {
                return;
            }
            store.strike_server(until);
            let ways = [(one, other, fault.which != 1), (other, one, fault.which != 2)];
            for (from, to, silent) in ways {
                ensemble.part(from, to, silent);
            }
            let scene = scene.clone();
            later(world, fault.long, move || {
                for (from, to, _) in ways {
                    scene.store.ensemble().part(from, to, false);
                }
            });
        }
        // Some of the servers, and not all.
        Kind::Lose => {
            let size = ensemble.size();
            let many = (1 + fault.which as usize % 2).min(size - 1);
            store.disturb(until);
            let servers = (0..many).map(|at| (fault.server + at) % size);
            block(scene, &process, servers, (true, fault.which < 3), fault.long);
        }
        // Something gets through for a moment.
        Kind::Blink => {
            let moment = u64::from(1 + fault.which) * 300;
            store.disturb(until + moment + fault.long);
            cut_off(scene, &process, (true, true), fault.long);
            let again = scene.clone();
            later(world, fault.long + moment, move || {
                cut_off(&again, &process, (true, true), fault.long);
            });
        }
        // The first connection of a process, as a rule, or another one.
        Kind::Hush => {
            let sessions = ensemble.sessions_of(&process);
            let which = fault.which as usize / 2 % sessions.len().max(1);
            let Some(session) = sessions.get(which) else { return };
            store.disturb(until);
            ensemble.hush(*session, fault.long);
        }
        Kind::Full => {
            let sessions = ensemble.sessions_of(&process);
            let which = fault.which as usize % sessions.len().max(1);
            let Some(session) = sessions.get(which).filter(|_| sessions.len() > 1) else { return };
            store.disturb(until);
            ensemble.opens_no_more(&process, fault.long);
            store.kill(*session);
        }
        Kind::Deafen => {
            let Some(leader) = ensemble.leader().filter(|_| ensemble.size() > 1) else { return };
            store.strike_server(until);
            for other in (0..ensemble.size()).filter(|other| *other != leader) {
                ensemble.part(leader, other, true);
                let scene = scene.clone();
                later(world, fault.long, move || {
                    scene.store.ensemble().part(leader, other, false);
                });
            }
        }
        Kind::Protect => {
            let held = scene.crew.ledger.held_nodes(fault.lock);
            let Some(path) = held.get(fault.which as usize % held.len().max(1)) else { return };
            store.refuses();
            world.say(|| format!("FAULT {path}: nobody may write it"));
            ensemble.restrict(path, Access::ReadOnly(1));
        }
        Kind::Kill => {
            for session in ensemble.sessions_of(&process) {
                store.kill(session);
            }
        }
        Kind::Delete | Kind::Set => {
            let nodes = scene.nodes(fault.lock);
            // The one that holds, as a rule, or one that waits.
            let Some(path) = nodes.get(fault.which as usize % nodes.len().max(1)) else { return };
            store.deletes(fault.lock);
            let path = path.clone();
            scene.crew.ledger.overwritten(&path);
            ensemble.outsider(match fault.kind {
                Kind::Delete => Operation::Delete { path },
                _ => Operation::Set { path, data: b"somebody was here".to_vec() },
            });
        }
        Kind::Wish => {
            // Of those who hold, or of all who are there.
            let mut nodes = scene.crew.ledger.held_nodes(fault.lock);
            if fault.which % 2 == 1 {
                nodes = scene.nodes(fault.lock);
            }
            if nodes.is_empty() {
                return;
            }
            let path = &nodes[scene.world.choose(nodes.len() as u32) as usize];
            store.meddle();
            let data = ASKED.to_vec();
            ensemble.outsider(Operation::Set { path: path.clone(), data });
            scene.crew.ledger.wished(path);
        }
        Kind::Contend => contend(scene, fault),
        Kind::Limit => set_limit(scene, fault.lock, 1 + fault.which),
        Kind::Blank => blank(scene, fault.lock),
        Kind::Close => close(scene, fault.process),
        Kind::Refuse => {
            store.refuses();
            // What may be done with nodes, those say in which they are.
            let directory = match fault.which / 2 {
                0 => scene.crew.locks[fault.lock].directory(),
                _ => format!("/zklock/{}", scene.crew.locks[fault.lock].name),
            };
            let access = match fault.which {
                0 => Access::Private(1),
                _ => Access::ReadOnly(1),
            };
            world.say(|| format!("FAULT {directory}: {access:?}"));
            ensemble.restrict(&directory, access);
            let scene = scene.clone();
            later(world, fault.long, move || {
                let usual = scene.crew.locks[fault.lock].access(&directory);
                scene.store.ensemble().restrict(&directory, usual);
            });
        }
        Kind::Plant => {
            let directory = format!("/zklock/{}", scene.crew.locks[fault.lock].name);
            store.meddle();
            let nodes = scene.nodes(fault.lock);
            // It looks like one that was there.
            let Some(path) = nodes.get(fault.which as usize % nodes.len().max(1)) else { return };
            let Some((_, name)) = path.rsplit_once('/') else { return };
            let digits = name.len().saturating_sub(10);
            if digits == 0 {
                return;
            }
            // Nobody can tell that a leader differs.
            let follows = ensemble.leader().is_some_and(|leader| leader != fault.server);
            if follows && name.is_char_boundary(digits) {
                let name = &name[..digits];
                // Those that come have other numbers, and those that are there are no strays: one whose creation
                // is on its way would be refused by this server, while its leader has it.
                let number =
                    |path: &String| path.get(path.len().checked_sub(10)?..)?.parse::<u32>().ok();
                let numbers: Vec<u32> = nodes.iter().filter_map(number).collect();
                let newest = numbers.iter().max().copied().unwrap_or_default();
                // Without an identifier, the reader that a writer becomes has the name of its number.
                let plain = scene.crew.locks[fault.lock].layout.is_plain();
                // One, or two in a row.
                for number in 0..=fault.which / 2 {
                    let stray = format!("{directory}/{name}{number:010}");
                    let is_used = nodes.contains(&stray) || plain && numbers.contains(&number);
                    if number < newest && !is_used {
                        scene.crew.planted.fetch_add(1, Ordering::Relaxed);
                        ensemble.plant(fault.server, &stray);
                    }
                }
            }
        }
        Kind::Numbers => {
            store.meddle();
            let directory = format!("/zklock/{}", scene.crew.locks[fault.lock].name);
            world.say(|| format!("FAULT {directory}: is close to its last number"));
            scene.crew.exhausted.store(true, Ordering::Relaxed);
            ensemble.set_sequence(&directory, i32::MAX - fault.which as i32);
        }
        Kind::Clear => {
            store.deletes(fault.lock);
            let mut nodes = scene.below(fault.lock);
            nodes.sort_by_key(|path| std::cmp::Reverse(path.len()));
            // With the directory, the numbers begin again.
            nodes.push(format!("/zklock/{}", scene.crew.locks[fault.lock].name));
            for path in nodes {
                ensemble.outsider(Operation::Delete { path });
            }
        }
    }
}

/// Another program wants a lock, too, or makes a node beside those of the lock that means nothing.
fn contend(scene: &Arc<Scene>, fault: Fault) {
    let (plan, ensemble) = (&scene.crew.locks[fault.lock], scene.store.ensemble());
    // Programs of others know nothing of a mutex beside a read/write lock, which says so.
    if plan.confused || plan.mixed {
        return;
    }
    let (mut path, kind) =
        plan.node_of_another(fault.which.is_multiple_of(2), scene.world.unique());
    if fault.which == 3 && plan.layout != Layout::OneNode {
        path = plan.queue() + BESIDE;
    }
    let Some(session) = ensemble.contend(&path, kind, fault.long + scene.crew.timeout) else {
        return;
    };
    scene.store.meddle();
    let again = scene.clone();
    later(&scene.world, fault.long, move || leave(&again, session, fault.which < 2));
}

/// The other program ends its session, as soon as there is a leader; perhaps it deletes its node before.
fn leave(scene: &Arc<Scene>, session: i64, deletes: bool) {
    let ensemble = scene.store.ensemble();
    if ensemble.leader().is_none() {
        let again = scene.clone();
        return later(&scene.world, 10_000, move || leave(&again, session, deletes));
    }
    let owned = if deletes { ensemble.owned_by(session) } else { Vec::new() };
    for path in owned {
        ensemble.outsider(Operation::Delete { path });
    }
    scene.store.kill(session);
}

/// Changes the limit of a semaphore, if it can be changed.
fn set_limit(scene: &Arc<Scene>, lock: usize, limit: u32) {
    let plan = &scene.crew.locks[lock];
    if plan.limited_at {
        scene.store.meddle();
        write_limit(scene, plan, limit);
    }
}

fn write_limit(scene: &Scene, plan: &LockPlan, limit: u32) {
    let path = format!("/zklock/{}", plan.limit_node());
    let data = limit.to_be_bytes().to_vec();
    scene.store.ensemble().outsider(Operation::Set { path, data });
}

/// Another program makes the directory of kazoo's semaphore anew, and does not write the limit into it yet. That is in
/// nobody's way, so that no rule makes an exception.
fn blank(scene: &Arc<Scene>, lock: usize) {
    let (plan, ensemble) = (&scene.crew.locks[lock], scene.store.ensemble());
    if plan.has_permits() && plan.layout == Layout::Kazoo {
        let path = plan.directory();
        ensemble.prepare("/zklock");
        ensemble.prepare(&path);
        ensemble.outsider(Operation::Set { path, data: Vec::new() });
    }
}

/// A process closes its session, and another one takes its place.
fn close(scene: &Arc<Scene>, place: usize) {
    let Some(running) = scene.running(place) else { return };
    scene.world.say(|| format!("{}: closes its session", running.process.id()));
    scene.store.closes();
    scene.close(running);
    scene.start(place);
}

/// Lets those stand still who just sent a request, if they are to: for about as long as a session lasts.
pub(crate) fn stall(scene: &Arc<Scene>) {
    let profile = &scene.crew.profile;
    if profile.stalls == 0 {
        return;
    }
    let running: Vec<Process> =
        (0..profile.processes as usize).map(|place| scene.process(place)).collect();
    for process in scene.store.ensemble().take_stalled(&running) {
        let long = u64::from(1 + scene.world.choose(60)) * scene.crew.timeout / 40;
        scene.store.disturb(scene.world.now() + long);
        stand_still(scene, process, long);
    }
}

fn stand_still(scene: &Arc<Scene>, process: Process, long: u64) {
    if process.is_paused() {
        return;
    }
    scene.world.say(|| format!("FAULT {}: stands still", process.id()));
    process.pause();
    let scene = scene.clone();
    later(&scene.world.clone(), long, move || {
        scene.world.say(|| format!("{}: goes on", process.id()));
        process.resume();
        scene.crew.ledger.goes_on(&process);
    });
}

/// The first moment from then on at which each server has just told its leader whom it has heard, as that has asked.
fn just_told(scene: &Arc<Scene>, at: u64) -> u64 {
    let half_tick = scene.crew.tick / 2;
    at.next_multiple_of(half_tick) + half_tick / 20
}

/// Cuts a server off from the others just before it tells its leader whom it has heard since then.
fn cut_follower_off(scene: &Arc<Scene>, process: Process, server: usize, since: u64) {
    let (world, parted) = (&scene.world, scene.crew.timeout * 5 / 4);
    let at = since + scene.crew.tick / 2 * 9 / 10;
    let scene = scene.clone();
    later(world, at - world.now(), move || {
        let until = scene.world.now() + parted;
        let all: Vec<usize> = (0..scene.store.ensemble().size()).collect();
        // The others go on.
        if !scene.are_struck(&all, until) {
            scene.store.strike_server(until);
            // It knows no other, where it would go on.
            scene.store.ensemble().reroute(&process, server);
            part(&scene, server, true, parted);
        }
    });
}

fn cut_off(scene: &Arc<Scene>, process: &Process, ways: (bool, bool), long: u64) {
    block(scene, process, 0..scene.store.ensemble().size(), ways, long);
}

/// Lets nothing through from a server to the others, nor from them if that is so in both ways.
fn part(scene: &Arc<Scene>, server: usize, both: bool, long: u64) {
    let ensemble = scene.store.ensemble();
    for other in (0..ensemble.size()).filter(|other| *other != server) {
        ensemble.part(server, other, true);
        ensemble.part(other, server, both);
        let scene = scene.clone();
        later(&scene.world.clone(), long, move || {
            scene.store.ensemble().part(server, other, false);
            scene.store.ensemble().part(other, server, false);
        });
    }
}

/// Lets nothing through between a process and some servers.
fn block(
    scene: &Arc<Scene>,
    process: &Process,
    servers: impl IntoIterator<Item = usize>,
    ways: (bool, bool),
    long: u64,
) {
    let ensemble = scene.store.ensemble();
    for server in servers {
        ensemble.block(process, server, ways.0, ways.1);
        let (scene, process) = (scene.clone(), process.clone());
        later(&scene.world.clone(), long, move || {
            scene.store.ensemble().block(&process, server, false, false);
        });
    }
}

/// Ends what is still wrong, and says so.
pub(crate) fn end(scene: &Arc<Scene>) {
    scene.world.say(|| "no more faults".to_owned());
    scene.store.ends();
    scene.store.ensemble().set_weather(scene.weather(false));
    for lock in 0..scene.crew.locks.len() {
        raise_limit(scene, lock);
    }
    scene.crew.calm.store(true, Ordering::Relaxed);
}

/// Gives a semaphore as many permits as anybody wants, as soon as there is a leader who writes it down.
fn raise_limit(scene: &Arc<Scene>, lock: usize) {
    let plan = &scene.crew.locks[lock];
    if !plan.limited_at {
        return;
    }
    if scene.store.ensemble().leader().is_some() {
        scene.store.gives_more();
        return write_limit(scene, plan, MOST_PERMITS);
    }
    let again = scene.clone();
    later(&scene.world, 10_000, move || raise_limit(&again, lock));
}
