//! What the sides run on: the server, and the programs of the peers, started when first needed.

use std::cell::RefCell;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use zklock_test_support::peers::Kazoo;
use zklock_test_support::{Ensemble, ZooKeeper};

use super::external::External;
use crate::drive::Failure;
use crate::workload::Shape;

/// How long Java runs before it is measured, so that its code is compiled.
const WARM_UP: Duration = Duration::from_secs(6);

const JARS: &str = "/usr/share/java";

/// The server and the peers of one run.
pub(crate) struct Bed {
    curator: Option<Rc<RefCell<External>>>,
    kazoo: Option<Rc<RefCell<External>>>,
    redis: [Option<Redis>; 2],
    // Last, so that nobody is left who complains of its end.
    servers: Servers,
}

enum Servers {
    One(ZooKeeper),
    Three(Ensemble),
}

impl Bed {
    /// Starts the server, or three. They write to the disk under cargo's target folder.
    pub(crate) fn start(fsync: bool, ensemble: bool) -> Bed {
        let builder = ZooKeeper::builder().for_measuring().fsync(fsync);
        let builder = builder.container_check(Duration::from_secs(60));
        let servers = match ensemble {
            false => Servers::One(builder.start()),
            true => Servers::Three(builder.ensemble(3)),
        };
        Bed { curator: None, kazoo: None, redis: [None, None], servers }
    }

    /// The server where clients connect. Of three it is a follower, and the same for all sides: on
    /// the leader, requests take a hop less, and clients that choose by chance could not be
    /// compared.
    pub(crate) fn server(&self) -> &ZooKeeper {
        match &self.servers {
            Servers::One(server) => server,
            Servers::Three(ensemble) => ensemble.server(usize::from(ensemble.leader() == 0)),
        }
    }

    /// Where clients connect.
    pub(crate) fn connect(&self) -> String {
        self.server().addr()
    }

    /// The Java side, warm.
    pub(crate) fn curator(&mut self) -> Result<Rc<RefCell<External>>, Failure> {
        if let Some(running) = &self.curator {
            return Ok(running.clone());
        }
        let mut process = start_curator(&self.connect(), &["-Xmx256m"])?;
        // It has loaded its own class by the end of the first round.
        for tasks in [10, 1] {
            process.run(Shape { sessions: 1, tasks, locks: 1 }, WARM_UP / 2)?;
        }
        Ok(self.curator.insert(Rc::new(RefCell::new(process))).clone())
    }

    /// The Python side.
    pub(crate) fn kazoo(&mut self) -> Result<Rc<RefCell<External>>, Failure> {
        if let Some(running) = &self.kazoo {
            return Ok(running.clone());
        }
        let mut command = Command::new(Kazoo::try_install()?.python());
        command.arg(peers().join("kazoo_rounds.py")).arg(self.connect()).stderr(Stdio::null());
        let process = External::start(&mut command)?;
        Ok(self.kazoo.insert(Rc::new(RefCell::new(process))).clone())
    }

    /// The port of a Redis server with or without fsync.
    pub(crate) fn redis(&mut self, fsync: bool) -> Result<u16, Failure> {
        let place = &mut self.redis[usize::from(fsync)];
        if let Some(running) = place {
            return Ok(running.port);
        }
        Ok(place.insert(Redis::start(fsync)?).port)
    }
}

/// Compiles and starts the Java side.
pub(crate) fn start_curator(connect: &str, options: &[&str]) -> Result<External, Failure> {
    let install = "install it with: apt-get install libcurator-recipes-java default-jdk-headless";
    let jars = ["recipes", "framework", "client"].map(|jar| format!("{JARS}/curator-{jar}.jar"));
    let others = ["zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop"];
    let others = others.map(|jar| format!("{JARS}/{jar}.jar"));
    let jars: Vec<_> = jars.into_iter().chain(others).collect();
    if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
        return Err(format!("{missing} is missing; {install}").into());
    }
    let (classes, class_path) = (scratch("classes")?, jars.join(":"));
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "-encoding", "UTF-8", "-cp", &class_path, "-d"]).arg(&classes);
    let compiled = javac.arg(peers().join("CuratorRounds.java")).status();
    if !compiled.map_err(|error| format!("javac: {error}; {install}"))?.success() {
        return Err("CuratorRounds.java does not compile".into());
    }
    let mut java = Command::new("java");
    java.arg("-XX:+UseSerialGC").args(options).arg("-cp");
    java.arg(format!("{}:{class_path}", classes.display()));
    let mut process = External::start(java.args(["CuratorRounds", connect]))?;
    // It has loaded its classes when it has run a round.
    process.run(Shape { sessions: 1, tasks: 1, locks: 1 }, Duration::from_millis(50))?;
    std::fs::remove_dir_all(&classes)?;
    Ok(process)
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers")
}

/// A folder beside the program, on the disk that the build is on.
fn scratch(label: &str) -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe()?;
    let target = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let base = target.map_or_else(std::env::temp_dir, |target| target.join("tmp"));
    let dir = base.join(format!("bench-{label}-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A Redis server that ends with this program.
struct Redis {
    port: u16,
    guard: Child,
}

/// Starts the server and ends it when the pipe from this program closes.
const GUARD: &str = "redis-server \"$@\" >/dev/null & read -r _; kill $!; wait; rm -rf -- \"$0\"";

impl Redis {
    fn start(fsync: bool) -> Result<Redis, Failure> {
        let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        if version.is_err() {
            return Err(
                "redis-server is missing; install it with: apt-get install redis-server".into()
            );
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let dir = scratch(&format!("redis-{port}"))?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD]).arg(&dir).args(["--bind", "127.0.0.1", "--save", ""]);
        guard.args(["--port", &port.to_string(), "--dir"]).arg(&dir);
        guard.args(["--appendonly", if fsync { "yes" } else { "no" }]);
        guard.args(["--appendfsync", "always"]);
        let guard = guard.stdin(Stdio::piped()).process_group(0).spawn()?;
        let (redis, start) = (Redis { port, guard }, Instant::now());
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if start.elapsed() > Duration::from_secs(20) {
                return Err("redis-server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        _ = self.guard.wait();
    }
}
