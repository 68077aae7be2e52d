//! How a server is set up.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Ensemble, ZooKeeper};
use crate::certificates::Certificates;
use crate::java;

/// Settings of a server; made by [`ZooKeeper::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    tick: Duration,
    min_session: Duration,
    max_session: Duration,
    container_check: Duration,
    fsync: bool,
    full_jit: bool,
    heap_mb: u32,
    init_limit: u32,
    sync_limit: u32,
    direct: bool,
    shipped: bool,
    class_path: Vec<String>,
    properties: Vec<(String, String)>,
    lines: Vec<String>,
    files: Vec<(String, String)>,
    counters: Vec<(String, i32)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(200),
            min_session: Duration::from_millis(400),
            max_session: Duration::from_secs(60),
            container_check: Duration::from_secs(1),
            fsync: false,
            full_jit: false,
            heap_mb: 128,
            init_limit: 25,
            sync_limit: 10,
            direct: false,
            shipped: false,
            class_path: Vec::new(),
            properties: Vec::new(),
            lines: Vec::new(),
            files: Vec::new(),
            counters: Vec::new(),
        }
    }
}

impl Builder {
    /// Sets ZooKeeper's unit of time; 200 ms. Sessions expire on its multiples.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Sets the shortest session timeout that a client can get; 400 ms.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session = timeout;
        self
    }

    /// Sets the longest session timeout that a client can get; 60 s.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session = timeout;
        self
    }

    /// Sets how often empty containers are reaped; 1 s.
    pub fn container_check(mut self, interval: Duration) -> Self {
        self.container_check = interval;
        self
    }

    /// Makes each commit wait for the disk, as in production; off, because most tests do not
    /// care and all must be fast.
    pub fn fsync(mut self, on: bool) -> Self {
        self.fsync = on;
        self
    }

    /// Sets how much memory the server may take for its objects, in megabytes; 128.
    pub fn heap_mb(mut self, most: u32) -> Self {
        self.heap_mb = most;
        self
    }

    /// Sets up a server that is like one in production, for benchmarks: fsync, the optimising
    /// compiler, 512 MB of memory, ZooKeeper's own tick of 2 s.
    pub fn for_measuring(mut self) -> Self {
        self.fsync = true;
        self.full_jit = true;
        self.heap_mb = 512;
        self.tick = Duration::from_secs(2);
        self
    }

    /// Leaves to ZooKeeper whatever it has a default for, with a tick of 2 s as in its sample configuration.
    /// Its log says what it uses.
    pub fn as_shipped(mut self) -> Self {
        self.shipped = true;
        self.tick = Duration::from_secs(2);
        self
    }

    /// Sets how many ticks a follower may take to join its leader; 25.
    pub fn init_limit(mut self, ticks: u32) -> Self {
        self.init_limit = ticks;
        self
    }

    /// Sets after how many ticks of silence a follower and its leader part; 10.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// Lets the servers of an ensemble reach each other without proxies between them, as in
    /// production. None of them can be isolated then.
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Makes the server speak TLS, on the same port as plain text. Clients over TLS must show a
    /// certificate of the same authority.
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        for jar in java::netty() {
            self = self.class_path(&jar);
        }
        let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
        self = self.java_property("zookeeper.serverCnxnFactory", factory);
        self = self.java_property("zookeeper.client.portUnification", "true");
        // A secure port has it by itself.
        let provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
        self = self.cfg_line(&format!("authProvider.x509={provider}"));
        let [key, trust] = certificates.stores();
        for (store, path) in [("keyStore", key), ("trustStore", trust)] {
            let path = path.display();
            self = self.cfg_line(&format!("ssl.{store}.location={path}"));
            self = self.cfg_line(&format!("ssl.{store}.type=PEM"));
        }
        self
    }

    /// Adds users of SASL (DIGEST-MD5), and refuses sessions that are none of them.
    pub fn sasl(self, users: &[(&str, &str)]) -> Self {
        let mut login =
            String::from("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required");
        for (user, password) in users {
            _ = write!(login, "\n  user_{user}=\"{password}\"");
        }
        login.push_str(";\n};\n");
        let provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        self.file("login.conf", &login)
            .java_property("java.security.auth.login.config", "login.conf")
            .java_property("zookeeper.enforce.auth.enabled", "true")
            .java_property("zookeeper.enforce.auth.schemes", "sasl")
            .cfg_line(&format!("authProvider.1={provider}"))
    }

    /// Adds a file to the server's folder, in which it runs.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Makes a node that has had so many children: the next sequential one there gets this number.
    pub fn sequence(mut self, path: &str, next: i32) -> Self {
        self.counters.push((path.to_owned(), next));
        self
    }

    /// Adds a Java system property of the server.
    pub fn java_property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a line to the server's configuration file.
    pub fn cfg_line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Adds a jar or folder to the server's class path.
    pub fn class_path(mut self, entry: &Path) -> Self {
        self.class_path.push(entry.display().to_string());
        self
    }

    /// Starts one server and waits until it serves.
    ///
    /// # Panics
    ///
    /// When Java or ZooKeeper is not installed, or the server does not come up.
    pub fn start(self) -> ZooKeeper {
        ZooKeeper::launch(self)
    }

    /// Starts several servers that make one service, and waits until all serve.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn ensemble(self, size: usize) -> Ensemble {
        Ensemble::launch(&self, size)
    }

    /// How many children nodes have had.
    pub(super) fn counters(&self) -> &[(String, i32)] {
        &self.counters
    }

    /// The files beside the configuration file.
    pub(super) fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// Returns the configuration file of a server.
    pub(super) fn cfg(&self, dir: &Path, port: u16) -> String {
        let mut cfg = format!(
            "dataDir={dir}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             tickTime={tick}\ninitLimit={init}\nsyncLimit={sync}\n",
            dir = dir.display(),
            tick = self.tick.as_millis(),
            init = self.init_limit,
            sync = self.sync_limit,
        );
        if !self.shipped {
            let (min, max) = (self.min_session.as_millis(), self.max_session.as_millis());
            _ = writeln!(cfg, "maxClientCnxns=0\nminSessionTimeout={min}\nmaxSessionTimeout={max}");
        }
        for line in &self.lines {
            _ = writeln!(cfg, "{line}");
        }
        cfg
    }

    /// Returns the command that runs a server with the configuration file `zoo.cfg`.
    pub(super) fn command(&self) -> Command {
        let mut class_path = java::server_class_path();
        for entry in &self.class_path {
            class_path = format!("{entry}:{class_path}");
        }
        let mut java = java::command("java");
        java.arg(format!("-Xmx{}m", self.heap_mb)).arg("-XX:+UseSerialGC");
        if !self.full_jit {
            // Half the start-up's CPU time; peak speed does not matter to a test.
            java.arg("-XX:TieredStopAtLevel=1");
        }
        let mut property = |name: &str, value: &str| {
            java.arg(format!("-D{name}={value}"));
        };
        property("java.net.preferIPv4Stack", "true");
        property("zookeeper.admin.enableServer", "false");
        property("zookeeper.extendedTypesEnabled", "true");
        property("zookeeper.forceSync", if self.fsync { "yes" } else { "no" });
        if !self.shipped {
            property("org.slf4j.simpleLogger.defaultLogLevel", "warn");
            property("zookeeper.4lw.commands.whitelist", "*");
            let interval = self.container_check.as_millis().to_string();
            property("znode.container.checkIntervalMs", &interval);
        }
        for (name, value) in &self.properties {
            property(name, value);
        }
        java.args(["-cp", &class_path]);
        // With a folder in front: ZooKeeper asks for the parent of the path.
        java.args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zoo.cfg"]);
        java
    }
}
