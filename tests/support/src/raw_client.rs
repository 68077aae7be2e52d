//! A client in a few lines, for looking at a server without the library under test.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::wire::{OpCode, Reader, Writer};

/// A blocking client with one connection that sends exactly what it is told.
///
/// It never pings, reconnects or retries: ask for a session timeout longer than the test, or call
/// [`ping`](Self::ping). Dropping it cuts the connection and leaves the session to expire;
/// [`close`](Self::close) ends the session.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    session: SessionKey,
    next_xid: i32,
    events: VecDeque<String>,
}

/// What a connection must show to take over a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// The session's id.
    pub id: i64,
    /// The password that came with it.
    pub password: Vec<u8>,
    /// The timeout that the server granted.
    pub timeout: Duration,
}

/// One reply of the server.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The request that it answers.
    pub xid: i32,
    /// The server's last transaction.
    pub zxid: i64,
    /// 0, or ZooKeeper's error code.
    pub err: i32,
    /// What follows the header.
    pub body: Vec<u8>,
}

/// Why a request of [`RawClient`] failed.
#[derive(Debug)]
pub enum RawError {
    /// The server answered with this error code (−101 no node, −110 node exists …).
    Code(i32),
    /// The connection failed: the request may or may not have been applied.
    Io(io::Error),
    /// The server does not know the session.
    Expired,
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ZooKeeper's error {code}"),
            Self::Io(err) => write!(f, "connection failed: {err}"),
            Self::Expired => f.write_str("session expired"),
        }
    }
}

impl std::error::Error for RawError {}

impl From<io::Error> for RawError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

/// The kind of node that [`RawClient::create`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "ZooKeeper's own names")]
pub enum CreateMode {
    Persistent = 0,
    Ephemeral = 1,
    PersistentSequential = 2,
    EphemeralSequential = 3,
    Container = 4,
}

impl RawClient {
    /// Opens a new session. Every later read gives up after 10 s.
    ///
    /// # Errors
    ///
    /// When no connection comes about.
    pub fn connect(addr: &str, session_timeout: Duration) -> Result<Self, RawError> {
        Self::open(addr, &SessionKey { id: 0, password: vec![0; 16], timeout: session_timeout })
    }

    /// Takes over a session from whatever connection it has.
    ///
    /// # Errors
    ///
    /// [`RawError::Expired`] when the server does not know the session.
    pub fn resume(addr: &str, session: &SessionKey) -> Result<Self, RawError> {
        Self::open(addr, session)
    }

    fn open(addr: &str, key: &SessionKey) -> Result<Self, RawError> {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let millis = i32::try_from(key.timeout.as_millis()).expect("a sane session timeout");
        let hello = Writer::default().int(0).long(0).int(millis).long(key.id);
        stream.write_all(&hello.buffer(&key.password).bool(false).frame())?;
        let answer = read_frame(&mut stream)?;
        let session = SessionKey::parse(&answer).ok_or_else(malformed)?;
        if session.id == 0 || session.timeout.is_zero() {
            return Err(RawError::Expired);
        }
        Ok(Self { stream, session, next_xid: 1, events: VecDeque::new() })
    }

    /// Returns the session, for [`resume`](Self::resume).
    pub fn session(&self) -> &SessionKey {
        &self.session
    }

    /// Sets how long a read waits; `None` waits for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.stream.set_read_timeout(timeout).expect("not zero");
    }

    /// Sends a request and returns its xid without waiting for the reply.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn send(&mut self, op: OpCode, body: &[u8]) -> Result<i32, RawError> {
        let xid = if op == OpCode::Ping { -2 } else { self.next_xid };
        self.next_xid += 1;
        let frame = Writer::default().int(xid).int(op.number()).bytes(body).frame();
        self.stream.write_all(&frame)?;
        Ok(xid)
    }

    /// Waits for the next reply; notifications before it are put aside for
    /// [`next_event`](Self::next_event).
    ///
    /// # Errors
    ///
    /// When the connection fails; an error of the server's is in [`Reply::err`].
    pub fn receive(&mut self) -> Result<Reply, RawError> {
        loop {
            let reply = self.receive_any()?;
            if reply.xid != -1 {
                return Ok(reply);
            }
        }
    }

    /// Waits for a notification and returns its path.
    ///
    /// # Errors
    ///
    /// When none arrives within the read timeout or the connection fails.
    pub fn next_event(&mut self) -> Result<String, RawError> {
        while self.events.is_empty() {
            self.receive_any()?;
        }
        self.events.pop_front().ok_or_else(|| malformed().into())
    }

    fn receive_any(&mut self) -> Result<Reply, RawError> {
        let frame = read_frame(&mut self.stream)?;
        let mut reader = Reader(&frame);
        let mut header = || Some((reader.int()?, reader.long()?, reader.int()?));
        let (xid, zxid, err) = header().ok_or_else(malformed)?;
        let reply = Reply { xid, zxid, err, body: reader.0.to_vec() };
        if xid == -1 {
            let path = reader.take(8).and_then(|_type_and_state| reader.string());
            self.events.push_back(path.ok_or_else(malformed)?.to_owned());
        }
        Ok(reply)
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    ///
    /// [`RawError::Code`] where the server refuses it.
    pub fn request(&mut self, op: OpCode, body: &[u8]) -> Result<Reply, RawError> {
        self.send(op, body)?;
        let reply = self.receive()?;
        if reply.err == 0 { Ok(reply) } else { Err(RawError::Code(reply.err)) }
    }

    /// Keeps the session alive.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn ping(&mut self) -> Result<(), RawError> {
        self.request(OpCode::Ping, &[]).map(drop)
    }

    /// Creates a node that everybody may do anything with, and returns its path.
    ///
    /// # Errors
    ///
    /// −110 where it exists, −101 where its parent is missing.
    pub fn create(
        &mut self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<String, RawError> {
        let op = match mode {
            CreateMode::Container => OpCode::CreateContainer,
            _ => OpCode::Create,
        };
        let body = create_body(path, data, mode);
        let reply = self.request(op, &body)?;
        Ok(Reader(&reply.body).string().ok_or_else(malformed)?.to_owned())
    }

    /// Deletes a node of any version.
    ///
    /// # Errors
    ///
    /// −101 where there is none.
    pub fn delete(&mut self, path: &str) -> Result<(), RawError> {
        let body = Writer::default().buffer(path.as_bytes()).int(-1);
        self.request(OpCode::Delete, &body.0).map(drop)
    }

    /// Tells whether a node exists; with `watch`, its next change becomes an event.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn exists(&mut self, path: &str, watch: bool) -> Result<bool, RawError> {
        let body = Writer::default().buffer(path.as_bytes()).bool(watch);
        match self.request(OpCode::Exists, &body.0) {
            Ok(_) => Ok(true),
            Err(RawError::Code(-101)) => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Returns a node's data.
    ///
    /// # Errors
    ///
    /// −101 where there is none.
    pub fn data(&mut self, path: &str) -> Result<Vec<u8>, RawError> {
        let body = Writer::default().buffer(path.as_bytes()).bool(false);
        let reply = self.request(OpCode::GetData, &body.0)?;
        Ok(Reader(&reply.body).buffer().ok_or_else(malformed)?.to_vec())
    }

    /// Sets a node's data, whatever its version.
    ///
    /// # Errors
    ///
    /// −101 where there is none.
    pub fn set_data(&mut self, path: &str, data: &[u8]) -> Result<(), RawError> {
        let body = Writer::default().buffer(path.as_bytes()).buffer(data).int(-1);
        self.request(OpCode::SetData, &body.0).map(drop)
    }

    /// Returns the sorted names of a node's children.
    ///
    /// # Errors
    ///
    /// −101 where there is no such node.
    pub fn children(&mut self, path: &str) -> Result<Vec<String>, RawError> {
        let body = Writer::default().buffer(path.as_bytes()).bool(false);
        let reply = self.request(OpCode::GetChildren, &body.0)?;
        let mut reader = Reader(&reply.body);
        let count = reader.int().ok_or_else(malformed)?;
        let names = (0..count).map(|_| reader.string().map(str::to_owned));
        let mut names = names.collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
        names.sort();
        Ok(names)
    }

    /// Returns how many children a node has gained and lost so far; none for a missing node.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn changes_of_children(&mut self, path: &str) -> Result<i32, RawError> {
        /// What comes first in a node's description: two transactions, two times, its own version.
        const AHEAD: usize = 4 * 8 + 4;
        let body = Writer::default().buffer(path.as_bytes()).bool(false);
        match self.request(OpCode::Exists, &body.0) {
            Ok(reply) => {
                let rest = reply.body.get(AHEAD..).ok_or_else(malformed)?;
                Ok(Reader(rest).int().ok_or_else(malformed)?)
            }
            Err(RawError::Code(-101)) => Ok(0),
            Err(err) => Err(err),
        }
    }

    /// Ends the session and deletes its ephemeral nodes.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn close(mut self) -> Result<(), RawError> {
        self.request(OpCode::CloseSession, &[]).map(drop)
    }
}

impl SessionKey {
    /// Reads the server's answer to a connect request; an id of 0 means "expired".
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader(frame);
        let _protocol = reader.int()?;
        let timeout = Duration::from_millis(u64::try_from(reader.int()?).ok()?);
        Some(Self { id: reader.long()?, password: reader.buffer()?.to_vec(), timeout })
    }
}

fn create_body(path: &str, data: &[u8], mode: CreateMode) -> Vec<u8> {
    let everything = Writer::default().int(1).int(31).buffer(b"world").buffer(b"anyone");
    let node = Writer::default().buffer(path.as_bytes()).buffer(data).bytes(&everything.0);
    node.int(mode as i32).0
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(len)).map_err(|_| malformed())?];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed frame")
}
