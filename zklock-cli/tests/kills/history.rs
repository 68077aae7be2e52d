//! What was seen: who lived when, and whose node was there when.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use zklock_test_support::{OpCode, RawClient, RawError, monotonic_ns};

use crate::plan::COMMANDS;

/// What one command and what it started wrote. All times are of the machine's monotonic clock, in
/// nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// The first process, which is the command.
    pub(crate) pid: Option<i32>,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// When the command ended by itself.
    pub(crate) ended: Option<u64>,
    /// When any of its processes lived.
    pub(crate) moments: Vec<u64>,
}

/// Reads what the commands of a round wrote.
pub(crate) fn lives(file: &Path) -> Vec<Life> {
    let mut lives = vec![Life::default(); COMMANDS];
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        // The last line may be half written.
        let [who, pid, what, at] = words[..] else { continue };
        let Ok(at) = at.parse() else { continue };
        let life = &mut lives[who.parse::<usize>().unwrap()];
        if life.pid.is_none() {
            life.pid = Some(pid.parse().unwrap());
            life.first = at;
        }
        life.last = life.last.max(at);
        life.moments.push(at);
        if what == "ends" {
            life.ended = Some(at);
        }
    }
    lives
}

/// Whose nodes a server showed, at one look.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) shown: [bool; COMMANDS],
}

/// Who waits and who holds has this label.
pub(crate) fn label(who: usize) -> String {
    format!("number-{who}.")
}

/// Looks at a lock's queue every few milliseconds until it is told to stop. While the server does not
/// answer, there are no looks.
pub(crate) fn watch(server: &str, directory: &str, stop: &AtomicBool) -> Vec<Look> {
    let mut looks = Vec::new();
    // The owners of nodes do not change.
    let mut owners = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = RawClient::connect(server, Duration::from_secs(10)) else {
            sleep(Duration::from_millis(20));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            let from = monotonic_ns();
            // A follower may not yet have heard of what its leader has told others.
            if sync(&mut client, directory).is_err() {
                break;
            }
            let nodes = match client.children(directory) {
                Ok(nodes) => nodes,
                // No such node.
                Err(RawError::Code(-101)) => Vec::new(),
                Err(_) => break,
            };
            let to = monotonic_ns();
            let mut shown = [false; COMMANDS];
            let mut all = true;
            for node in nodes {
                let owner = owners.get(&node).copied().or_else(|| {
                    let data = client.data(&format!("{directory}/{node}")).ok()?;
                    let data = String::from_utf8_lossy(&data);
                    let owner = (0..COMMANDS).find(|who| data.contains(&label(*who)))?;
                    owners.insert(node, owner);
                    Some(owner)
                });
                match owner {
                    Some(owner) => shown[owner] = true,
                    // It is gone meanwhile.
                    None => all = false,
                }
            }
            if all {
                looks.push(Look { from, to, shown });
            }
            sleep(Duration::from_millis(5));
        }
    }
    looks
}

/// Has a server hear of everything that its leader knows.
fn sync(client: &mut RawClient, path: &str) -> Result<(), RawError> {
    let length = i32::try_from(path.len()).unwrap().to_be_bytes();
    client.request(OpCode::Sync, &[&length, path.as_bytes()].concat()).map(drop)
}
