//! What a server does with what its clients send.

use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::Created;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;

use super::frames::{Answer, Hello, ToClient, ToPeer, ToServer};
use super::machine::{Machine, Wire};
use super::prepare::{Author, Write};
use super::server::{Connection, Pending, Role};
use super::txn::{Applied, Origin, Path, SESSION_MOVED};
use super::watches::Aspect;

/// The request of a connection that opens its session.
const OPENING: u64 = 0;

impl Machine {
    /// A frame of a client arrives.
    pub(super) fn serve(&mut self, at: usize, id: u64, frame: ToServer) {
        let server = &mut self.servers[at];
        if let ToServer::Dial = frame {
            if !server.up {
                self.send_to_client(id, ToClient::Reset);
            } else if !server.serves() {
                self.send_to_client(id, ToClient::End);
            } else {
                server.connections.insert(id, Connection::new());
                self.send_to_client(id, ToClient::Accepted);
            }
            return;
        }
        let Some(connection) = server.connections.get_mut(&id) else {
            if let ToServer::End = frame {
                self.wires.remove(&id);
            }
            return;
        };
        match frame {
            ToServer::End => {
                self.forget_connection(at, id);
                self.wires.remove(&id);
            }
            ToServer::Connect(hello) => self.connect(at, id, hello),
            frame if connection.session == 0 => connection.inbox.push_back(frame),
            frame => {
                let session = connection.session;
                self.note_served(at, id);
                self.is_heard(session, id);
                self.touch(at, session);
                self.take(at, id, frame);
            }
        }
    }

    /// A server hears of a session.
    fn touch(&mut self, at: usize, session: i64) {
        let now = self.now;
        let server = &mut self.servers[at];
        match &mut server.role {
            Role::Leader(lead) => {
                lead.tracker.touch(session, now);
            }
            _ => {
                server.touched.insert(session);
            }
        }
    }

    /// Whether no server opens another session for a process.
    pub(super) fn gets_no_session(&self, process: u32) -> bool {
        self.full.get(&process).is_some_and(|until| self.now < *until)
    }

    fn connect(&mut self, at: usize, id: u64, mut hello: Hello) {
        let bounds = (self.options.min_timeout, self.options.max_timeout);
        let is_full = |wire: &Wire| self.gets_no_session(wire.process);
        let is_full = hello.session == 0 && self.wires.get(&id).is_some_and(is_full);
        let server = &mut self.servers[at];
        // Who has seen more than this server knows is sent away.
        if hello.seen > server.tree.zxid || is_full {
            self.close_connection(at, id);
            return;
        }
        hello.timeout = hello.timeout.clamp(bounds.0, bounds.1);
        let fresh = server.new_session();
        if let Some(connection) = server.connections.get_mut(&id) {
            connection.hello = Some(hello);
        }
        if hello.session == 0 {
            let author = Author { session: fresh, ..Author::default() };
            let write = Write::OpenSession { session: fresh, timeout: hello.timeout };
            let origin = Origin { server: at, connection: id, xid: OPENING };
            self.write(at, author, write, Some(origin));
            return;
        }
        let session = hello.session;
        let older: Vec<u64> = server.connections_of(session, id);
        self.is_heard(session, id);
        for older in older {
            self.close_connection(at, older);
        }
        let now = self.now;
        let leader = match &mut self.servers[at].role {
            Role::Leader(lead) => {
                let valid = lead.tracker.touch(session, now);
                lead.tracker.set_owner(session, at);
                self.opened(at, id, if valid { session } else { 0 });
                return;
            }
            Role::Follower(leader) => *leader,
            Role::Looking => return,
        };
        self.send_to_peer(at, leader, ToPeer::Revalidate { session, connection: id });
    }

    /// The session of a connection is open, or there is none.
    pub(super) fn opened(&mut self, at: usize, id: u64, session: i64) {
        let Some(connection) = self.servers[at].connections.get_mut(&id) else { return };
        let Some(hello) = connection.hello else { return };
        if session == 0 && self.options.replaces {
            // As some servers do, instead of a refusal.
            return self.connect(at, id, Hello { session: 0, ..hello });
        }
        connection.session = session;
        if let Some(wire) = self.wires.get(&id).filter(|_| session != 0) {
            self.opened_by.insert(session, wire.process);
        }
        let inbox = std::mem::take(&mut connection.inbox);
        self.note_label(session, id);
        self.send_to_client(id, ToClient::Connected { session, timeout: hello.timeout });
        if session == 0 {
            self.close_connection(at, id);
            return;
        }
        self.touch(at, session);
        for frame in inbox {
            self.take(at, id, frame);
        }
    }

    /// Takes a frame of an open session: in its turn, and writes are passed on at once.
    fn take(&mut self, at: usize, id: u64, frame: ToServer) {
        let Some(connection) = self.servers[at].connections.get_mut(&id) else { return };
        let Some(hello) = connection.hello else { return };
        let author = Author {
            session: connection.session,
            credentials: hello.credentials,
            access: hello.access,
        };
        let (xid, write) = match frame {
            ToServer::Close(xid) => {
                connection.pending.push_back(Pending::Close(xid, false));
                (xid, Write::CloseSession)
            }
            ToServer::Request(xid, request) => match into_write(request) {
                Ok(write) => {
                    connection.pending.push_back(Pending::Asked(xid, None));
                    (xid, write)
                }
                Err(Request::Sync { .. }) => {
                    connection.pending.push_back(Pending::Asked(xid, None));
                    self.sync(at, Origin { server: at, connection: id, xid });
                    return;
                }
                Err(read) => return self.in_turn(at, id, ToServer::Request(xid, read)),
            },
            frame => return self.in_turn(at, id, frame),
        };
        self.write(at, author, write, Some(Origin { server: at, connection: id, xid }));
    }

    fn in_turn(&mut self, at: usize, id: u64, frame: ToServer) {
        if let Some(connection) = self.servers[at].connections.get_mut(&id) {
            connection.pending.push_back(Pending::Own(frame));
            self.drain(at, id);
        }
    }

    /// A write of a connection was applied here.
    pub(super) fn answer(
        &mut self,
        origin: Origin,
        zxid: i64,
        result: Result<Applied, RequestError>,
    ) {
        let (at, id) = (origin.server, origin.connection);
        if origin.xid == OPENING {
            let hello = self.servers[at].connections.get(&id).and_then(|one| one.hello);
            if let (Some(_), Ok(Applied::Opened(session))) = (hello, result) {
                self.opened(at, id, session);
            }
            return;
        }
        let Some(connection) = self.servers[at].connections.get_mut(&id) else { return };
        let result = result.map(|applied| match applied {
            Applied::Done | Applied::Opened(_) => Answer::Done,
            Applied::Stat(stat) => Answer::Stat(stat),
            Applied::Created(path, stat) => Answer::Created(Created::new(path.to_string(), stat)),
        });
        for pending in &mut connection.pending {
            match pending {
                Pending::Asked(xid, answer) if *xid == origin.xid => {
                    *answer = Some((zxid, result));
                    break;
                }
                Pending::Close(xid, done) if *xid == origin.xid => {
                    *done = true;
                    break;
                }
                _ => {}
            }
        }
        self.drain(at, id);
    }

    /// Answers what can be answered, in order.
    fn drain(&mut self, at: usize, id: u64) {
        loop {
            let server = &mut self.servers[at];
            let Some(connection) = server.connections.get_mut(&id) else { return };
            let ready = match connection.pending.front() {
                Some(Pending::Asked(_, answer)) => answer.is_some(),
                Some(Pending::Close(_, done)) => *done,
                Some(Pending::Own(_)) => true,
                None => false,
            };
            if !ready {
                return;
            }
            match connection.pending.pop_front() {
                // An error of the connection, which ends with it (`FinalRequestProcessor`): the client
                // connects again, and then the leader knows where it is.
                Some(Pending::Asked(_, Some((_, Err(RequestError::Other(error))))))
                    if error == SESSION_MOVED =>
                {
                    return self.close_connection(at, id);
                }
                Some(Pending::Asked(xid, Some((zxid, answer)))) => {
                    self.send_to_client(id, ToClient::Reply { xid, zxid, answer });
                }
                Some(Pending::Close(xid, _)) => {
                    let zxid = server.tree.zxid;
                    self.send_to_client(
                        id,
                        ToClient::Reply { xid, zxid, answer: Ok(Answer::Done) },
                    );
                    self.close_connection(at, id);
                }
                Some(Pending::Own(frame)) => self.own(at, id, frame),
                _ => return,
            }
        }
    }

    /// Answers what the server knows by itself.
    fn own(&mut self, at: usize, id: u64, frame: ToServer) {
        let server = &mut self.servers[at];
        let zxid = server.tree.zxid;
        match frame {
            ToServer::Ping => self.send_to_client(id, ToClient::Pong),
            ToServer::SetWatches(list) => {
                for (notice, path) in server.watches.set_again(&server.tree, id, &list) {
                    self.send_to_client(id, ToClient::Notice(notice, path));
                }
                self.send_to_client(id, ToClient::WatchesSet { zxid });
            }
            ToServer::RemoveWatches(xid, path, aspect) => {
                for one in [Aspect::Data, Aspect::Children] {
                    if aspect.is_none_or(|aspect| aspect == one) {
                        server.watches.remove(id, one, &path);
                    }
                }
                self.send_to_client(id, ToClient::Reply { xid, zxid, answer: Ok(Answer::Done) });
            }
            ToServer::Request(xid, request) => {
                self.lists(id, xid, zxid);
                let answer = self.read(at, id, request);
                self.send_to_client(id, ToClient::Reply { xid, zxid, answer });
            }
            ToServer::Dial | ToServer::Connect(_) | ToServer::Close(_) | ToServer::End => {}
        }
    }

    fn read(&mut self, at: usize, id: u64, request: Request) -> Result<Answer, RequestError> {
        let forbids = self.options.weather.forbids;
        if forbids > 0 && self.world.seldom(2, forbids) == 1 {
            self.say(|| format!("FAULT nobody may read: {request:?}"));
            self.forbidden += 1;
            return Err(RequestError::NoAuth);
        }
        let server = &mut self.servers[at];
        let hello = server.connections.get(&id).and_then(|one| one.hello);
        let credentials = hello.and_then(|hello| hello.credentials);
        let (answer, watched) = match request {
            Request::Get { path, watch } => {
                let node = server.tree.read(&path, credentials)?;
                let answer = Answer::Data(node.data.to_vec(), node.stat());
                (answer, watch.then_some((Aspect::Data, path)))
            }
            Request::Children { path, watch } => {
                let node = server.tree.read(&path, credentials)?;
                let mut names: Vec<String> =
                    node.children.iter().map(|name| name.to_string()).collect();
                // A server gives no order.
                if names.len() > 1 {
                    let by = zxid_order(server.tree.zxid, names.len());
                    names.rotate_left(by);
                }
                (Answer::Children(names), watch.then_some((Aspect::Children, path)))
            }
            _ => return Err(RequestError::BadArguments("not a read".to_owned())),
        };
        if let Some((aspect, path)) = watched {
            server.watches.add(id, aspect, &Path::from(path));
        }
        Ok(answer)
    }

    /// The server ends a connection, after what it has sent.
    pub(super) fn close_connection(&mut self, at: usize, id: u64) {
        self.forget_connection(at, id);
        self.send_to_client(id, ToClient::End);
    }

    /// A server forgets a connection.
    pub(super) fn forget_connection(&mut self, at: usize, id: u64) {
        let server = &mut self.servers[at];
        server.watches.forget(id);
        server.connections.remove(&id);
    }
}

/// Some place in a list, which changes as the tree does.
fn zxid_order(zxid: i64, among: usize) -> usize {
    usize::try_from(zxid.unsigned_abs()).unwrap_or_default() % among
}

/// The write that a request is, or the request again.
fn into_write(request: Request) -> Result<Write, Request> {
    Ok(match request {
        Request::Create { path, data, kind } => Write::One(Operation::Create { path, data, kind }),
        Request::Delete { path } => Write::One(Operation::Delete { path }),
        Request::Set { path, data } => Write::One(Operation::Set { path, data }),
        Request::Multi(operations) => Write::Multi(operations),
        read => return Err(read),
    })
}
