//! The threads that carry one direction of a connection: one reads, one writes.
//!
//! Two, so that a delay shifts the stream and does not slow it down.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use super::connection::Connection;
use super::forward::forward;
use super::frame::Direction;
use super::rule::Cut;
use super::state::{Framing, Shared, State};
use crate::clock::monotonic_ns;
use crate::wire::{Reader, Writer};

/// No frame of ZooKeeper's is longer; four letters read as a length are.
const MAX_FRAME: usize = 64 << 20;

#[derive(Debug)]
pub(super) enum Unit {
    Frame(Vec<u8>),
    Bytes(Vec<u8>),
    /// The sender closed in order.
    End,
    /// The sender vanished.
    Broken,
}

/// A unit and when it arrived.
pub(super) type Item = (Instant, u64, Unit);

/// Reads one side until its end; after a cut, discards what still comes.
pub(super) fn read(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    mut source: &TcpStream,
    queue: SyncSender<Item>,
) {
    let mut queue = Some(queue);
    loop {
        let unit = read_unit(shared, connection, direction, &mut source);
        let over = matches!(unit, Unit::End | Unit::Broken);
        if over && direction == Direction::ToServer {
            connection.client_gone.store(true, Ordering::SeqCst);
        }
        if connection.is_cut() {
            queue = None;
        } else if let Some(open) = &queue
            && open.send((Instant::now(), monotonic_ns(), unit)).is_err()
        {
            queue = None;
        }
        if over {
            return;
        }
    }
}

fn read_unit(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    source: &mut &TcpStream,
) -> Unit {
    let first = !connection.greeted[direction.index()].load(Ordering::SeqCst);
    if let (Framing::Election(addr), true, Direction::ToServer) =
        (&shared.framing, first, direction)
    {
        connection.greeted[direction.index()].store(true, Ordering::SeqCst);
        return election_greeting(source, &addr.to_string()).map_or_else(|unit| unit, Unit::Bytes);
    }
    if connection.raw.load(Ordering::SeqCst) {
        let mut bytes = vec![0; 1 << 16];
        return match source.read(&mut bytes) {
            Ok(0) => Unit::End,
            Ok(len) => {
                bytes.truncate(len);
                Unit::Bytes(bytes)
            }
            Err(err) if err.kind() == ErrorKind::Interrupted => Unit::Bytes(Vec::new()),
            Err(_) => Unit::Broken,
        };
    }
    let mut frame = match read_exact(source, 4) {
        Ok(prefix) => prefix,
        Err(unit) => return unit,
    };
    let len = u32::from_be_bytes(frame[..4].try_into().expect("4 bytes")) as usize;
    if len > MAX_FRAME {
        // A four-letter word, or TLS.
        connection.raw.store(true, Ordering::SeqCst);
        return Unit::Bytes(frame);
    }
    match read_exact(source, len) {
        Ok(body) => {
            frame.extend(body);
            Unit::Frame(frame)
        }
        Err(unit) => unit,
    }
}

fn read_exact(source: &mut &TcpStream, len: usize) -> Result<Vec<u8>, Unit> {
    let mut bytes = vec![0; len];
    match source.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(err) if err.kind() == ErrorKind::UnexpectedEof => Err(Unit::End),
        Err(_) => Err(Unit::Broken),
    }
}

/// Reads `version: long, server id: long, address: string` and puts another address there.
fn election_greeting(source: &mut &TcpStream, addr: &str) -> Result<Vec<u8>, Unit> {
    let head = read_exact(source, 16)?;
    let len = read_exact(source, 4)?;
    let len = Reader(&len).int().and_then(|len| usize::try_from(len).ok()).ok_or(Unit::Broken)?;
    let _own_addr = read_exact(source, len)?;
    Ok(Writer::default().bytes(&head).buffer(addr.as_bytes()).0)
}

/// Writes what was read to the other side, as gates and rules allow.
pub(super) fn write(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    queue: &Receiver<Item>,
) {
    while let Ok((at, at_ns, unit)) = queue.recv() {
        if !pass_gates(shared, connection, direction, at) {
            return;
        }
        let goes_on = match unit {
            Unit::Frame(bytes) => forward(shared, connection, direction, (at, at_ns), &bytes),
            Unit::Bytes(bytes) => {
                shared.lock().bytes[direction.index()] += bytes.len() as u64;
                send(shared, connection, direction, &bytes)
            }
            Unit::End => {
                if let Some(sink) = connection.sink(direction) {
                    _ = sink.shutdown(Shutdown::Write);
                }
                false
            }
            Unit::Broken => {
                connection.cut(shared, Cut::Reset, Cut::Reset);
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Waits for the black hole to end and for the delay to pass; false after a cut.
fn pass_gates(shared: &Shared, connection: &Connection, direction: Direction, at: Instant) -> bool {
    loop {
        let delay = shared.lock().delay[direction.index()];
        let due = at + delay;
        // Once the delay is over, only a change of the state matters.
        let deadline = (due > Instant::now()).then_some(due);
        let gate = |state: &mut State| match () {
            () if connection.is_cut() => Some(Gate::Closed),
            () if state.delay[direction.index()] != delay => Some(Gate::Look),
            () if state.black_hole[direction.index()] || due > Instant::now() => None,
            () => Some(Gate::Open),
        };
        match shared.wait_until(deadline, gate) {
            Some(Gate::Open) => return true,
            Some(Gate::Closed) => return false,
            Some(Gate::Look) | None => {}
        }
    }
}

enum Gate {
    Open,
    Closed,
    Look,
}

/// Writes all bytes; false when the connection is over.
pub(super) fn send(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    bytes: &[u8],
) -> bool {
    let mut left = bytes;
    while !left.is_empty() {
        let Some(sink) = connection.sink(direction).filter(|_| !connection.is_cut()) else {
            return false;
        };
        match (&*sink).write(left) {
            Ok(len) => left = &left[len..],
            Err(err)
                if matches!(
                    err.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => {
                connection.cut(shared, Cut::Reset, Cut::Reset);
                return false;
            }
        }
    }
    true
}
