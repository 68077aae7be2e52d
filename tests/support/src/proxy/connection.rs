//! One client's connection and its twin to the server.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::frame::Direction;
use super::parse::Request;
use super::rule::Cut;
use super::state::Shared;

/// The two sockets and what passed between them.
///
/// The threads keep it alive: it is gone when the last of them has ended.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) session: AtomicI64,
    /// Not ZooKeeper's client protocol, or no longer.
    pub(super) raw: AtomicBool,
    /// Per direction: whether the connect frame has passed.
    pub(super) greeted: [AtomicBool; 2],
    cut: AtomicBool,
    /// The client hears nothing any more: it is about to be cut.
    muted: AtomicBool,
    /// The client closed or vanished before the server was reached.
    pub(super) client_gone: AtomicBool,
    /// By the direction of what is written to them: the server, the client.
    sinks: [Mutex<Option<Arc<TcpStream>>>; 2],
    unanswered: Mutex<VecDeque<Request>>,
}

impl Connection {
    pub(super) fn new(id: u64, client: Arc<TcpStream>, raw: bool) -> Self {
        let connection = Self {
            id,
            session: AtomicI64::new(0),
            raw: AtomicBool::new(raw),
            greeted: Default::default(),
            cut: AtomicBool::new(false),
            muted: AtomicBool::new(false),
            client_gone: AtomicBool::new(false),
            sinks: Default::default(),
            unanswered: Mutex::default(),
        };
        connection.attach(Direction::ToClient, client);
        connection
    }

    /// Sets the socket to which this direction is written.
    pub(super) fn attach(&self, direction: Direction, socket: Arc<TcpStream>) {
        _ = socket.set_nodelay(true);
        // So that a thread that writes to a frozen receiver sees a cut.
        _ = socket.set_write_timeout(Some(Duration::from_millis(20)));
        *self.side(direction) = Some(socket);
    }

    pub(super) fn sink(&self, direction: Direction) -> Option<Arc<TcpStream>> {
        self.side(direction).clone()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub(super) fn mute_client(&self) {
        self.muted.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_muted(&self, direction: Direction) -> bool {
        direction == Direction::ToClient && self.muted.load(Ordering::SeqCst)
    }

    /// Cuts both sides, each in its way, and discards what has not been forwarded.
    ///
    /// Returns what is gone once a reset has been sent.
    pub(super) fn cut(&self, shared: &Shared, server: Cut, client: Cut) -> Vec<Weak<TcpStream>> {
        // Under the lock, so that no thread misses it between its look and its wait.
        shared.update(|_| self.cut.store(true, Ordering::SeqCst));
        let ways = [(Direction::ToServer, server), (Direction::ToClient, client)];
        ways.into_iter().filter_map(|(direction, way)| self.cut_side(direction, way)).collect()
    }

    fn cut_side(&self, direction: Direction, way: Cut) -> Option<Weak<TcpStream>> {
        let mut side = self.side(direction);
        match way {
            Cut::Fin => {
                // Not `Both`: closing with unread bytes would make a reset of it. The reading
                // thread goes on discarding until the other side closes.
                if let Some(socket) = side.as_ref() {
                    _ = socket.shutdown(Shutdown::Write);
                }
                None
            }
            Cut::Reset => {
                let socket = side.take()?;
                // The reset goes out when the last owner closes it: wake the reading thread,
                // without a word to the other side.
                _ = set_socket_linger(&*socket, Some(Duration::ZERO));
                _ = socket.shutdown(Shutdown::Read);
                Some(Arc::downgrade(&socket))
            }
        }
    }

    pub(super) fn push_request(&self, request: Request) {
        self.requests().push_back(request);
    }

    /// Returns the oldest unanswered request with this number: pings all have the same.
    pub(super) fn take_request(&self, xid: i32) -> Option<Request> {
        let mut requests = self.requests();
        let index = requests.iter().position(|request| request.xid == xid)?;
        requests.remove(index)
    }

    fn requests(&self) -> MutexGuard<'_, VecDeque<Request>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn side(&self, direction: Direction) -> MutexGuard<'_, Option<Arc<TcpStream>>> {
        self.sinks[direction.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
