//! Where a test lives: a root of its own on a server, its sessions, and the look from outside.

use std::future::Future;
use std::ops::Deref;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use zklock::{MutexGuard, Session, SessionBuilder};
use zklock_test_support::{
    Builder, CreateMode, Ensemble, Late, Proxy, RawClient, RawError, ZooKeeper, measured,
};

/// Long enough for two busy cores; nothing here waits that long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// For so long, closing a session waits for the server's reply. Without it the session ends with its
/// timeout.
pub(crate) const CLOSE: Duration = Duration::from_secs(1);

/// That of the servers.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// A root of its own on a server. [`end`](Bed::end) it: that proves that nothing is left.
pub(crate) struct Bed {
    server: Server,
    root: String,
    sessions: Mutex<Vec<Session>>,
    ended: bool,
}

enum Server {
    Shared(&'static ZooKeeper),
    Own(Box<ZooKeeper>),
    Three(Box<Ensemble>),
}

impl Deref for Server {
    type Target = ZooKeeper;
    fn deref(&self) -> &ZooKeeper {
        match self {
            Server::Shared(server) => server,
            Server::Own(server) => server,
            // It knows of the sessions of all.
            Server::Three(ensemble) => ensemble.server(ensemble.leader()),
        }
    }
}

impl Bed {
    /// On the server that all tests share.
    pub(crate) fn shared(root: &str) -> Self {
        Self::on(Server::Shared(ZooKeeper::shared()), root)
    }

    /// On the same server, again with another root if the machine is too busy to measure ([`measured`]).
    pub(crate) async fn measured(root: &str, measure: impl AsyncFn(Bed) -> Vec<Late>) {
        measured(async |time| measure(Bed::shared(&format!("{root}-{time}"))).await).await;
    }

    /// On a server that the test may break.
    pub(crate) fn own() -> Self {
        Self::on(Server::Own(Box::new(ZooKeeper::start())), "own")
    }

    /// The same with options.
    pub(crate) fn own_with(options: impl FnOnce(Builder) -> Builder) -> Self {
        Self::on(Server::Own(Box::new(options(ZooKeeper::builder()).start())), "own")
    }

    /// On three servers that the test may break. What is looked at from outside is the leader's.
    pub(crate) fn three(builder: Builder) -> Self {
        Self::on(Server::Three(Box::new(builder.ensemble(3))), "own")
    }

    fn on(server: Server, root: &str) -> Self {
        Bed { server, root: format!("/{root}"), sessions: Mutex::default(), ended: false }
    }

    pub(crate) fn server(&self) -> &ZooKeeper {
        &self.server
    }

    /// The three servers.
    pub(crate) fn ensemble(&self) -> &Ensemble {
        match &self.server {
            Server::Three(ensemble) => ensemble,
            _ => panic!("not on three servers"),
        }
    }

    /// A session in the making, at an address that leads to the server.
    pub(crate) fn builder_at(&self, addr: &str) -> SessionBuilder {
        Session::builder(addr)
            .root(self.root.clone())
            .app("tests")
            .session_timeout(Duration::from_secs(20))
            .connect_timeout(PATIENCE)
    }

    /// A session in the making.
    pub(crate) fn builder(&self) -> SessionBuilder {
        self.builder_at(&self.server.addr())
    }

    /// A connected session, whose end [`end`](Bed::end) checks.
    pub(crate) async fn session(&self) -> Session {
        self.adopt(self.builder().connect().await.unwrap())
    }

    /// The same with a session timeout of its own.
    pub(crate) async fn session_of(&self, session_timeout: Duration) -> Session {
        self.adopt(self.builder().session_timeout(session_timeout).connect().await.unwrap())
    }

    /// A proxy in front of the server.
    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(self.server.socket_addr())
    }

    /// A session through a proxy, which must let it through again before the [`end`](Bed::end).
    pub(crate) async fn session_through(&self, proxy: &Proxy) -> Session {
        self.adopt(self.builder_at(&proxy.addr()).connect().await.unwrap())
    }

    /// The same with a session timeout of its own.
    pub(crate) async fn session_of_through(&self, timeout: Duration, proxy: &Proxy) -> Session {
        let builder = self.builder_at(&proxy.addr()).session_timeout(timeout);
        self.adopt(builder.connect().await.unwrap())
    }

    /// Several of them.
    pub(crate) async fn sessions(&self, count: usize) -> Vec<Session> {
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(self.session().await);
        }
        sessions
    }

    /// Takes a session into the care of [`end`](Bed::end).
    pub(crate) fn adopt(&self, session: Session) -> Session {
        self.sessions.lock().unwrap().push(session.clone());
        session
    }

    /// The path of a lock's directory.
    pub(crate) fn path(&self, lock: &str) -> String {
        format!("{}/{lock}", self.root)
    }

    /// A client without the library under test.
    pub(crate) fn raw(&self) -> RawClient {
        RawClient::connect(&self.server.addr(), Duration::from_secs(60)).unwrap()
    }

    /// Makes the directory of a lock, unless it is there, and keeps it from being reaped, as it may be at
    /// any moment while it is empty.
    pub(crate) fn keep_directory(&self, lock: &str) {
        let (mut raw, directory) = (self.raw(), self.path(lock));
        let keep = format!("{directory}/keep");
        while let Err(error) = raw.create(&keep, b"", CreateMode::Persistent) {
            assert!(matches!(error, RawError::Code(-101)), "{error}");
            // One that is reaped in between is made again.
            drop(raw.create(&self.root, b"", CreateMode::Container));
            drop(raw.create(&directory, b"", CreateMode::Container));
        }
        raw.close().unwrap();
    }

    /// The names of a lock's contenders in the order of the queue.
    pub(crate) fn contenders(&self, lock: &str) -> Vec<String> {
        self.contenders_by(lock, "lock-")
    }

    /// The same of nodes whose names have something else in them.
    pub(crate) fn contenders_by(&self, lock: &str, part: &str) -> Vec<String> {
        let mut raw = self.raw();
        let mut names = match raw.children(&self.path(lock)) {
            Ok(names) => names,
            Err(RawError::Code(-101)) => Vec::new(),
            Err(error) => panic!("{error}"),
        };
        raw.close().unwrap();
        names.retain(|name| name.contains(part));
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        names
    }

    /// Waits until a lock has so many contenders.
    pub(crate) async fn until_contenders(&self, lock: &str, count: usize) -> Vec<String> {
        until(&format!("{count} contenders"), || {
            let names = self.contenders(lock);
            (names.len() == count).then_some(names)
        })
        .await
    }

    /// Waits until a lock's directory has so many ephemeral nodes.
    pub(crate) async fn until_nodes(&self, lock: &str, count: usize) {
        let (directory, what) = (self.path(lock), format!("{count} nodes"));
        until(&what, || (self.below(&directory).len() == count).then_some(())).await;
    }

    /// The ephemeral nodes in a directory.
    pub(crate) fn below(&self, directory: &str) -> Vec<String> {
        let (mut nodes, below) = (self.ephemerals(), format!("{directory}/"));
        nodes.retain(|path| path.starts_with(&below));
        nodes
    }

    /// The paths below this root that somebody watches.
    pub(crate) fn watched(&self) -> Vec<String> {
        let answer = self.server.four_letter("wchp").unwrap();
        let below = format!("{}/", self.root);
        answer.lines().filter(|line| line.starts_with(&below)).map(str::to_owned).collect()
    }

    /// The paths that a session watches.
    pub(crate) fn watched_by(&self, session: &Session) -> Vec<String> {
        let id = session.zookeeper_session().unwrap().id;
        let answer = self.server.four_letter("wchc").unwrap();
        let paths = answer.lines().skip_while(|line| line.trim() != format!("{id:#x}")).skip(1);
        let paths = paths.take_while(|line| line.starts_with('\t'));
        paths.map(|path| path.trim().to_owned()).collect()
    }

    /// Whether any other than the first connection of a session watches a path.
    pub(crate) fn is_watched_beside(&self, session: &Session, path: &str) -> bool {
        let own = session.zookeeper_session().map(|one| format!("{:#x}", one.id));
        let answer = self.server.four_letter("wchp").unwrap();
        let who = answer.lines().skip_while(|line| *line != path).skip(1);
        let mut who = who.map_while(|line| line.strip_prefix('\t'));
        who.any(|id| Some(id.trim()) != own.as_deref())
    }

    /// Whether the server knows a ZooKeeper session.
    pub(crate) fn has_session(&self, id: i64) -> bool {
        self.server.sessions().iter().any(|session| session.id == id)
    }

    /// The ephemeral nodes below this root.
    pub(crate) fn ephemerals(&self) -> Vec<String> {
        let below = format!("{}/", self.root);
        let all = self.server.sessions().into_iter().flat_map(|session| session.ephemerals);
        all.filter(|path| path.starts_with(&below)).collect()
    }

    /// Proves that nothing of ours is left on the server: no node and no watch while the sessions
    /// live, and no session once they are closed. Whatever was acquired must have been released.
    pub(crate) async fn end(mut self) {
        self.ended = true;
        // What was dropped and not awaited is deleted in the background.
        let limit = Instant::now() + PATIENCE;
        loop {
            let (nodes, watches) = (self.ephemerals(), self.watched());
            if nodes.is_empty() && watches.is_empty() {
                break;
            }
            assert!(
                Instant::now() < limit,
                "left are the nodes {nodes:?}, watched are {watches:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let sessions = std::mem::take(&mut *self.sessions.lock().unwrap());
        let ids: Vec<_> =
            sessions.iter().filter_map(Session::zookeeper_session).map(|one| one.id).collect();
        // Of three servers, the one that is asked may apply it after the one that has answered the client.
        let mut is_late = matches!(self.server, Server::Three(_));
        for session in sessions {
            let start = Instant::now();
            session.close().await;
            is_late |= start.elapsed() >= CLOSE;
        }
        let ours = |id| ids.contains(&id);
        loop {
            let left = self.server.sessions();
            if !left.iter().any(|session| ours(session.id)) {
                break;
            }
            assert!(is_late && Instant::now() < limit, "closed, but there: {left:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        assert!(self.ended || thread::panicking(), "a test must `end` its bed");
    }
}

/// Waits until there is something to see. This is no pause: it ends with the first sight.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < limit, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for what must come, with a name for the failure.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// Acquires in a task of its own.
pub(crate) fn acquiring(session: &Session, lock: &str) -> tokio::task::JoinHandle<MutexGuard> {
    let mutex = session.mutex(lock).unwrap();
    tokio::spawn(async move { soon("the lock", mutex.acquire()).await.unwrap() })
}
