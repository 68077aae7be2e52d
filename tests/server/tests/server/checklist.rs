//! The numbers of `docs/production.md` are those of a server with ZooKeeper's own settings, and of the
//! library.

use std::time::Duration;

use zklock::{Session, SessionBuilder};
use zklock_test_support::{CreateMode, RawClient, RawError, ZooKeeper};

use crate::bed::{PATIENCE, until};

/// The page, with one blank between words.
fn page() -> String {
    let words = include_str!("../../../../docs/production.md").split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

/// Fails unless the page says this.
fn says(words: &str) {
    assert!(page().contains(words), "docs/production.md does not say: {words}");
}

/// Whether the servers are those that the tests find by themselves.
fn is_debians() -> bool {
    std::env::var_os("ZKLOCK_ZOOKEEPER_CLASSPATH").is_none()
}

/// Seconds as the page writes them.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// The session timeout that is granted, and the lease.
async fn granted(builder: SessionBuilder) -> (Duration, Duration) {
    let session = builder.connect_timeout(PATIENCE).connect().await.unwrap();
    // Not while it has to open another one, on a busy machine.
    let timing = until("a session", || session.timing()).await;
    session.close().await;
    (timing.session_timeout, timing.lease)
}

#[tokio::test]
async fn the_numbers_of_the_checklist_are_those_of_a_server() {
    // Not the default, which is `srvr` alone.
    let whitelist = ("zookeeper.4lw.commands.whitelist", "srvr,conf");
    let server = ZooKeeper::builder().as_shipped().java_property(whitelist.0, whitelist.1).start();
    let conf = server.four_letter("conf").unwrap();
    let conf = |name: &str| -> u64 {
        let value = conf.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name}: {conf}")).parse().unwrap()
    };
    let (tick, builder) = (conf("tickTime"), || Session::builder(server.addr()));

    // What is outside of two and twenty ticks is clamped. Not so short that the client gives its attempts up by then.
    let (shortest, _) = granted(builder().session_timeout(Duration::from_secs(1))).await;
    let (longest, _) = granted(builder().session_timeout(Duration::from_secs(3_600))).await;
    assert_eq!([shortest, longest], [2, 20].map(|ticks| Duration::from_millis(ticks * tick)));
    let (usual, lease) = granted(builder()).await;
    let (least, most, asked) = (seconds(shortest), seconds(longest), seconds(usual));
    says(&format!("With `tickTime={tick}` these are {least} and {most}; zklock requests {asked}."));
    says(&format!("Less than {least} needs servers with a shorter tick"));
    let (_, better) = granted(builder().tick_time(Duration::from_millis(tick))).await;
    let (lease, better) = (seconds(lease), seconds(better));
    says(&format!("shorter than it could be: {lease} instead of {better} of {asked}"));

    says(&format!("**`maxClientCnxns`** ({} unless set", conf("maxClientCnxns")));
    let builder = builder().session_timeout(Duration::from_secs(30));
    assert!(format!("{builder:?}").contains("most_connections: 4"), "{builder:?}");
    says("a session opens one connection, and up to four when it is busy");

    // One more than fits breaks the connection.
    let mut client = RawClient::connect(&server.addr(), PATIENCE).unwrap();
    client.create("/most", &vec![0; 1_000_000], CreateMode::Persistent).unwrap();
    let broken = client.create("/more", &vec![0; 1 << 20], CreateMode::Persistent);
    assert!(matches!(broken, Err(ref error) if !matches!(error, RawError::Code(_))), "{broken:?}");
    says("**`jute.maxbuffer`** (1 MiB unless set)");
    let session = builder.connect_timeout(PATIENCE).connect().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let refused = guard.fenced().set("/most", &vec![0; 1_000_001]).await.unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("accepts at most 1000000"), "{refused}");
    says("zklock sends no request of more than 1,000,000 bytes");
    // In a reply, each name follows its length.
    let each = guard.node_path().rsplit('/').next().unwrap().len() + 4;
    assert!((56..=64).contains(&each) && 15_000 * each < 1 << 20, "{each} bytes a node");
    says("has about 60 bytes for each of them");
    says("below some 15,000 nodes");
    guard.release().await.unwrap();
    session.close().await;

    // Debian's tells them; of others the log may be empty, for want of a logger.
    let log = server.log();
    let number = |name: &str| -> Option<u64> {
        let said = log.lines().find(|line| line.contains("Using checkIntervalMs="))?;
        let value = said.split_whitespace().find_map(|word| word.strip_prefix(name))?;
        value.strip_prefix('=')?.parse().ok()
    };
    if is_debians() || log.contains("INFO") {
        let numbers = ["checkIntervalMs", "maxPerMinute", "maxNeverUsedIntervalMs"].map(number);
        // The last one is off.
        assert_eq!(numbers, [60_000, 10_000, 0].map(Some), "{log}");
    } else {
        println!("not compared: what this server uses for its containers, which it does not log");
    }
    says(
        "`znode.container.checkIntervalMs` (60 s), at most `znode.container.maxPerMinute` (10,000).",
    );
    says("`znode.container.maxNeverUsedIntervalMs` (3.6 and later, off unless set)");
}

#[test]
fn the_versions_of_the_checklist_are_those_that_are_tested() {
    let others = include_str!("../../../other-servers");
    let listed =
        others.lines().find_map(|line| line.strip_prefix("[ \"${#versions[@]}\" -gt 0 ] || "));
    let listed = listed.unwrap().strip_prefix("versions=(").unwrap().trim_end_matches(')');
    let [old, new] = listed.split(' ').collect::<Vec<_>>()[..] else { panic!("{listed}") };
    says(&format!("the tests run on {old}, "));
    says(&format!(" and {new}. Know"));
    if is_debians() {
        let told = ZooKeeper::shared().four_letter("srvr").unwrap();
        let version = told.strip_prefix("Zookeeper version: ").expect(&told);
        let [major, minor] = version.split('.').take(2).collect::<Vec<_>>()[..] else {
            panic!("{told}")
        };
        says(&format!("the tests run on {old}, {major}.{minor} and {new}"));
    }
}
