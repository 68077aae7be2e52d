//! One frame: what it is, which rule it meets, and what becomes of it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::connection::Connection;
use super::frame::{Direction, Frame};
use super::parse::{self, Request};
use super::pump::send;
use super::rule::{Action, Cut};
use super::state::Shared;
use crate::raw_client::SessionKey;
use crate::wire::OpCode;

/// Forwards a frame as the rules say; false when the direction is over.
pub(super) fn forward(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    (at, at_ns): (Instant, u64),
    bytes: &[u8],
) -> bool {
    if connection.is_muted(direction) {
        return false;
    }
    let request = describe(connection, direction, &bytes[4..]);
    let frame = Frame {
        at,
        at_ns,
        connection: connection.id,
        session: connection.session.load(Ordering::SeqCst),
        direction,
        xid: request.0.xid,
        opcode: request.0.opcode,
        path: request.0.path.clone(),
        err: request.1,
        len: bytes.len(),
        action: None,
    };
    let opcode = frame.opcode;
    let (action, rule) = shared.update(|state| {
        let verdict = state.judge(frame);
        if opcode == OpCode::Connect
            && direction == Direction::ToClient
            && let Some(key) = SessionKey::parse(&bytes[4..])
        {
            connection.session.store(key.id, Ordering::SeqCst);
            state.learn_session(key);
        }
        verdict
    });
    match action {
        Action::Drop => return true,
        Action::DropAndCut(way) => {
            connection.cut(shared, way, way);
            return false;
        }
        Action::TearAndCut(way) => {
            send(shared, connection, direction, &bytes[..bytes.len() / 2]);
            connection.cut(shared, way, way);
            return false;
        }
        Action::Hold => {
            let freed = shared.wait_until(None, |state| {
                (connection.is_cut() || !state.has_rule(rule)).then_some(())
            });
            debug_assert!(freed.is_some());
        }
        Action::Delay(time) => {
            let deadline = Some(Instant::now() + time);
            shared.wait_until(deadline, |_| connection.is_cut().then_some(()));
        }
        Action::Pass | Action::ForwardAndCut(_) => {}
    }
    if connection.is_cut() {
        return false;
    }
    // Counted before it is sent, so that whoever has the answer finds it counted.
    shared.update(|state| {
        state.bytes[direction.index()] += bytes.len() as u64;
        match direction {
            Direction::ToServer => *state.requests.entry(opcode).or_default() += 1,
            Direction::ToClient => {
                state.watch_events += u64::from(opcode == OpCode::Notification);
            }
        }
    });
    if direction == Direction::ToServer && opcode != OpCode::Connect {
        connection.push_request(request.0);
    }
    if direction == Direction::ToServer && matches!(action, Action::ForwardAndCut(_)) {
        // Before it is sent: the reply can be back before the cut.
        connection.mute_client();
    }
    let sent = send(shared, connection, direction, bytes);
    if let Action::ForwardAndCut(way) = action {
        match direction {
            Direction::ToServer => connection.cut(shared, Cut::Fin, way),
            Direction::ToClient => connection.cut(shared, way, way),
        };
        return false;
    }
    sent
}

/// Says what a frame is; the number is a reply's error code.
fn describe(connection: &Connection, direction: Direction, body: &[u8]) -> (Request, i32) {
    let unknown = || Request { xid: 0, opcode: OpCode::Other(i32::MIN), path: None };
    if !connection.greeted[direction.index()].swap(true, Ordering::SeqCst) {
        return (Request { opcode: OpCode::Connect, ..unknown() }, 0);
    }
    if direction == Direction::ToServer {
        return (parse::request(body).unwrap_or_else(unknown), 0);
    }
    let Some(mut reply) = parse::reply(body) else { return (unknown(), 0) };
    if reply.xid == -1 {
        let path = parse::notified_path(reply.body);
        return (Request { xid: -1, opcode: OpCode::Notification, path }, 0);
    }
    let mut request = connection.take_request(reply.xid).unwrap_or_else(unknown);
    if request.opcode.is_create()
        && reply.err == 0
        && let Some(made) = reply.body.string()
    {
        request.path = Some(made.to_owned());
    }
    request.xid = reply.xid;
    (request, reply.err)
}
