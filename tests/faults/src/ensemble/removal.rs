//! Nodes that are taken away behind the backs of their owners.

use std::collections::HashSet;
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
            let ours: HashSet<i64> = seats
                .iter()
                .flat_map(|seat| &seat.proxies)
                .flat_map(|proxy| proxy.sessions().into_iter().map(|key| key.id))
                .collect();
            // Fails where the servers are broken just now.
            _ = self.remove_one(&ours, &mut random);
        }
    }

    fn remove_one(&self, ours: &HashSet<i64>, random: &mut Random) -> Result<(), RawError> {
        let leader = self.ensemble.server(self.ensemble.leader());
        let sessions =
            leader.try_sessions()?.into_iter().filter(|session| ours.contains(&session.id));
        let nodes: Vec<String> = sessions.flat_map(|session| session.ephemerals).collect();
        // A node of one name for all is another's the next moment.
        let mine: Vec<&String> = nodes
            .iter()
            .filter(|node| node.starts_with(ROOT) && !node.ends_with("/lock"))
            .collect();
        if mine.is_empty() {
            return Ok(());
        }
        let mut node = (*random.one_of(&mine)).clone();
        let addr = leader.addr();
        let mut client = RawClient::connect(&addr, Duration::from_secs(10))?;
        client.set_read_timeout(Some(Duration::from_secs(2)));
        let (directory, _) = node.rsplit_once('/').unwrap_or_default();
        let mut queue = client.children(directory)?;
        // By the number, which every layout has at the end.
        queue.sort_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
        let head = queue.first().map(|head| format!("{directory}/{head}"));
        if let Some(head) = head.clone().filter(|head| nodes.contains(head))
            && random.below(2) == 0
        {
            node = head;
        }
        let held = head.as_ref() == Some(&node);
        let from = monotonic_ns();
        let gone = match client.delete(&node) {
            Ok(()) => true,
            Err(RawError::Code(_)) => false,
            Err(_) => !still_there(&addr, &node),
        };
        if gone {
            let what = if held { "head deleted" } else { "waiting node deleted" };
            self.count(what);
            self.history.note(json!({ "fault": what, "nodes": [node], "from_ns": from }));
        }
        client.close()
    }
}

fn still_there(addr: &str, node: &str) -> bool {
    let limit = Instant::now() + PATIENCE;
    while Instant::now() < limit {
        let look = RawClient::connect(addr, Duration::from_secs(5))
            .and_then(|mut client| client.exists(node, false));
        if let Ok(there) = look {
            return there;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Ends a session, and notes which nodes that has surely taken.
pub(super) fn end_session(stage: &Stage<'_>, client: &str, key: &SessionKey) {
    let (from, limit) = (monotonic_ns(), Instant::now() + PATIENCE);
    let mut nodes: HashSet<String> = HashSet::new();
    let mut tried = false;
    loop {
        // Any server knows all sessions; the leader knows them first.
        let addr = stage.ensemble.server(stage.ensemble.leader()).addr();
        let ended = RawClient::resume(&addr, key).and_then(|mut taken| {
            taken.set_read_timeout(Some(Duration::from_secs(2)));
            // Its client may take it back and add some before the next try.
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
            Err(_) if Instant::now() > limit || stage.is_over() => break,
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    stage.count("session killed");
    let note = json!({ "fault": "session killed", "client": client, "from_ns": from,
        "nodes": nodes });
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
