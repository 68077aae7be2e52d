//! The thread that lets clients in.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::frame::Direction;
use super::pump::{self, Item};
use super::rule::Cut;
use super::state::{Framing, Shared, State};
use crate::port::ReservedPort;

/// How many frames wait in a direction before the sender's own buffers fill.
const QUEUE: usize = 1024;

/// Listens whenever it may, until the proxy is closed.
pub(super) fn run(shared: &Arc<Shared>, port: &ReservedPort) {
    let may_listen = |state: &mut State| match (state.closed, state.refuse) {
        (true, _) => Some(false),
        (false, refuse) => (!refuse).then_some(true),
    };
    while shared.wait_until(None, may_listen) == Some(true) {
        let listener = TcpListener::bind(port.addr())
            .unwrap_or_else(|err| panic!("cannot listen on {}: {err}", port.addr()));
        let for_waking = listener.try_clone().expect("a file descriptor");
        let wanted = shared.update(|state| {
            let wanted = !state.closed && !state.refuse;
            state.listener = wanted.then_some(for_waking);
            wanted
        });
        while wanted && let Ok((client, _)) = listener.accept() {
            open(shared, client);
        }
        // Also after an error of `accept`: the port must be free for the next round.
        shared.update(|state| state.listener = None);
    }
}

fn open(shared: &Arc<Shared>, client: TcpStream) {
    let client = Arc::new(client);
    let raw = !matches!(shared.framing, Framing::Client);
    let connection = shared.update(|state| {
        state.accepted += 1;
        state.connections.retain(|known| known.strong_count() > 0);
        let connection = Arc::new(Connection::new(state.accepted, Arc::clone(&client), raw));
        state.connections.push(Arc::downgrade(&connection));
        connection
    });
    let (sender, receiver) = sync_channel(QUEUE);
    spawn_reader(shared, &connection, Direction::ToServer, client, sender);
    let shared = Arc::clone(shared);
    spawn("proxy-to-server", move || carry(&shared, &connection, &receiver));
}

/// Connects to the server, then writes to it.
fn carry(shared: &Arc<Shared>, connection: &Arc<Connection>, queue: &mpsc::Receiver<Item>) {
    // A server behind a black hole must not see that somebody knocks.
    let mut waited = false;
    let upstream = shared.wait_until(None, |state| {
        let open = state.black_hole == [false; 2] || connection.is_cut();
        waited |= !open;
        open.then_some(state.upstream)
    });
    // Who wrote and closed while the way was open is heard, however late this thread runs: servers that
    // elect a leader call each other so.
    let gone = waited && connection.client_gone.load(Ordering::SeqCst) || connection.is_cut();
    let server = upstream.filter(|_| !gone).and_then(|upstream| {
        TcpStream::connect_timeout(&upstream, Duration::from_secs(30)).ok().map(Arc::new)
    });
    let Some(server) = server else {
        connection.cut(shared, Cut::Reset, Cut::Reset);
        return;
    };
    connection.attach(Direction::ToServer, Arc::clone(&server));
    let (sender, receiver) = sync_channel(QUEUE);
    spawn_reader(shared, connection, Direction::ToClient, server, sender);
    let (there, then) = (Arc::clone(shared), Arc::clone(connection));
    spawn("proxy-to-client", move || pump::write(&there, &then, Direction::ToClient, &receiver));
    if connection.is_cut() {
        // Cut while it was being made: the cut saw no server's side.
        connection.cut(shared, Cut::Reset, Cut::Reset);
    }
    pump::write(shared, connection, Direction::ToServer, queue);
}

fn spawn_reader(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    direction: Direction,
    source: Arc<TcpStream>,
    queue: mpsc::SyncSender<Item>,
) {
    let (shared, connection) = (Arc::clone(shared), Arc::clone(connection));
    spawn("proxy-read", move || pump::read(&shared, &connection, direction, &source, queue));
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(work).expect("a thread");
}
