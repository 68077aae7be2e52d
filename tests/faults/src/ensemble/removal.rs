//! Nodes that are taken away behind the backs of their owners.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::json;
use zklock_test_support::{OpCode, RawClient, RawError, SessionKey, monotonic_ns};

use super::agent::{ROOT, Seat};
use super::faults::Stage;
use super::random::Random;

/// For how long the outcome of a request that got no answer is looked for.
const PATIENCE: Duration = Duration::from_secs(5);

impl Stage<'_> {
    /// Deletes nodes of the clients, held ones and waiting ones, until it is over.
    pub(super) fn remove_nodes(&self, seats: &[Seat], mut random: Random) {
        while !self.is_over() {
            self.pause(Duration::from_millis(200 + random.below(600)));
            let ours: HashMap<i64, String> = seats
                .iter()
                .flat_map(|seat| seat.proxies.iter().map(|proxy| (seat.name(), proxy)))
                .flat_map(|(name, proxy)| {
                    proxy.sessions().into_iter().map(move |key| (key.id, name.clone()))
                })
                .collect();
            // Fails where the servers are broken just now.
            _ = self.remove_one(&ours, &mut random);
        }
    }

    fn remove_one(&self, ours: &HashMap<i64, String>, random: &mut Random) -> Result<(), RawError> {
        let leader = self.ensemble.server(self.ensemble.leader());
        let sessions = leader.try_sessions()?;
        let nodes = sessions.iter().filter_map(|session| Some((ours.get(&session.id)?, session)));
        let nodes: HashMap<&str, &str> = nodes
            .flat_map(|(owner, session)| {
                session.ephemerals.iter().map(move |node| (&**node, &**owner))
            })
            // A node of one name for all is another's the next moment.
            .filter(|(node, _)| node.starts_with(ROOT) && !node.ends_with("/lock"))
            .collect();
        let mut mine: Vec<&str> = nodes.keys().copied().collect();
        mine.sort_unstable();
        if mine.is_empty() {
            return Ok(());
        }
        let mut node = (*random.one_of(&mine)).to_owned();
        let addr = leader.addr();
        let mut client = RawClient::connect(&addr, Duration::from_secs(10))?;
        client.set_read_timeout(Some(Duration::from_secs(2)));
        let (directory, _) = node.rsplit_once('/').unwrap_or_default();
        let mut queue = client.children(directory)?;
        // By the number, which every layout has at the end.
        queue.sort_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
        let head = queue.first().map(|head| format!("{directory}/{head}"));
        if let Some(head) = head.clone().filter(|head| nodes.contains_key(&**head))
            && random.below(2) == 0
        {
            node = head;
        }
        let held = head.as_ref() == Some(&node);
        let from = monotonic_ns();
        let unsure = match client.delete(&node) {
            Ok(()) => false,
            Err(RawError::Code(_)) => return client.close(),
            Err(_) => !self.delete_for_sure(&node),
        };
        let what = if held { "head deleted" } else { "waiting node deleted" };
        self.count(what);
        let owner = nodes.get(&*node);
        self.history.note(json!({ "fault": what, "nodes": [node], "from_ns": from,
            "owner": owner, "unsure": unsure }));
        client.close()
    }

    /// Deletes a node whose deletion was not answered, which the servers may still have before them. Returns whether
    /// it is gone.
    fn delete_for_sure(&self, node: &str) -> bool {
        let limit = Instant::now() + PATIENCE;
        loop {
            let addr = self.ensemble.server(self.ensemble.leader()).addr();
            let deleted =
                RawClient::connect(&addr, Duration::from_secs(10)).and_then(|mut client| {
                    client.set_read_timeout(Some(Duration::from_secs(2)));
                    client.delete(node)
                });
            match deleted {
                Ok(()) | Err(RawError::Code(_)) => return true,
                Err(_) if Instant::now() > limit || self.is_over() => return false,
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Ends a session, and notes which nodes that has taken. Its client must be kept out meanwhile: what it
/// made between the look at its nodes and the end would be missed.
pub(super) fn end_session(stage: &Stage<'_>, client: &str, key: &SessionKey) {
    let (from, limit) = (monotonic_ns(), Instant::now() + PATIENCE);
    let mut nodes: HashSet<String> = HashSet::new();
    let (mut tried, mut unsure) = (false, false);
    loop {
        // Any server knows all sessions; the leader knows them first.
        let addr = stage.ensemble.server(stage.ensemble.leader()).addr();
        let ended = RawClient::resume(&addr, key).and_then(|mut taken| {
            taken.set_read_timeout(Some(Duration::from_secs(2)));
            nodes.extend(ephemerals(&mut taken)?);
            tried = true;
            taken.close()
        });
        match ended {
            Ok(()) => break,
            // It was over before anybody tried to end it.
            Err(RawError::Expired) if !tried => return,
            Err(RawError::Expired) => break,
            // Where nobody ever was asked to end it, nobody did.
            Err(_) if Instant::now() > limit && !tried => return,
            Err(_) if Instant::now() > limit || stage.is_over() => {
                unsure = true;
                break;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    stage.count("session killed");
    let note = json!({ "fault": "session killed", "client": client, "from_ns": from,
        "nodes": nodes, "unsure": unsure });
    stage.history.note(note);
}

/// The nodes of one's own session.
fn ephemerals(client: &mut RawClient) -> Result<Vec<String>, RawError> {
    let root = [0, 0, 0, 1, b'/'];
    client.request(OpCode::Sync, &root)?;
    let reply = client.request(OpCode::GetEphemerals, &root)?;
    let mut rest = &reply.body[..];
    let number = |rest: &mut &[u8]| {
        let (four, others) = rest.split_at_checked(4)?;
        *rest = others;
        usize::try_from(i32::from_be_bytes(four.try_into().ok()?)).ok()
    };
    let mut nodes = Vec::new();
    for _ in 0..number(&mut rest).unwrap_or_default() {
        let Some((name, others)) =
            number(&mut rest).and_then(|length| rest.split_at_checked(length))
        else {
            break;
        };
        nodes.push(String::from_utf8_lossy(name).into_owned());
        rest = others;
    }
    Ok(nodes)
}
