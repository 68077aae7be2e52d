//! The command over TLS, to a server whose port for it speaks nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../run/bed.rs"]
#[allow(dead_code, unused_imports, reason = "other tests need more of it")]
mod bed;

use std::fs;
use std::process::{Command, Output};

use zklock_test_support::{Certificates, CreateMode, RawClient, ReservedPort, ZooKeeper};

use crate::bed::{BOUND, Bed, TWO, until};

/// A server with two ports: one for TLS only, and one for the looks of the test.
struct Secure {
    server: ZooKeeper,
    port: ReservedPort,
    bed: Bed,
    /// The server reads them when somebody comes.
    _certificates: Certificates,
}

impl Secure {
    fn start(name: &str) -> Self {
        let (bed, certificates) = (Bed::new(name), Certificates::make());
        let port = ReservedPort::reserve();
        let secure = format!("secureClientPort={}", port.number());
        let server = ZooKeeper::builder().tls(&certificates).cfg_line(&secure);
        let server = server.cfg_line("secureClientPortAddress=127.0.0.1").start();
        for (file, text) in [
            ("ca", certificates.authority()),
            ("cert", certificates.client()),
            ("key", certificates.client_key()),
        ] {
            fs::write(bed.folder.join(file), text).unwrap();
        }
        Secure { server, port, bed, _certificates: certificates }
    }

    fn plain(&self, arguments: &[&str]) -> Command {
        self.bed.zklock_at(&format!("127.0.0.1:{}", self.port.number()), arguments)
    }

    /// Over TLS, without a certificate.
    fn stranger(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain(arguments);
        command.env("ZKLOCK_TLS_CA", self.bed.folder.join("ca"));
        command
    }

    fn zklock(&self, arguments: &[&str]) -> Command {
        let mut command = self.stranger(arguments);
        // The nodes are of whoever has the certificate.
        command.env("ZKLOCK_ACL", "creator");
        for (name, file) in [("CERT", "cert"), ("KEY", "key")] {
            command.env(format!("ZKLOCK_TLS_{name}"), self.bed.folder.join(file));
        }
        command
    }

    /// Again if ZooKeeper does not answer, as on a busy machine: nothing was done then.
    fn output(&self, arguments: &[&str]) -> Output {
        until("ZooKeeper answers", || {
            let output = self.zklock(arguments).output().unwrap();
            println!("{arguments:?}: {output:?}");
            (output.status.code() != Some(69)).then_some(output)
        })
    }

    fn said(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.output(arguments);
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    }
}

#[test]
fn why_tells_who_holds_a_lock_over_tls_and_break_frees_it() {
    let secure = Secure::start("tls");
    let run = ["run", "a", "--label", "night 7", "--", "sh", "-c", TWO];
    let mut holder = secure.zklock(&run).spawn().unwrap();
    secure.bed.pids("pids");
    let (text, code) = secure.said(&["why", "a", "--within", "20s"]);
    assert!(text.contains("held by  sh on ") && text.contains("night 7"), "{text}");
    let says = "\nNothing is wrong, as far as it is known: whether the holder lives is not told.\n";
    assert!(text.ends_with(says) && code == 0, "{text}");
    // Its words are plain text, which this port does not understand.
    assert!(text.contains("; when it was last heard is not known: 127.0.0.1:"), "{text}");
    assert!(secure.said(&["ls"]).0.contains("\na     Curator        0  sh on "));
    let (czxid, node) = {
        let node = text.lines().find_map(|line| line.strip_prefix("node     ")).unwrap();
        let (node, czxid) = node.split_once(", czxid ").unwrap();
        (czxid.to_owned(), node.to_owned())
    };
    let breaks = ["break", "a", "--node", &node, "--czxid", &czxid, "--yes"];
    assert_eq!(secure.said(&breaks), (format!("deleted {node}\n"), 0));
    assert_eq!(holder.wait().unwrap().code(), Some(124));
}

#[test]
fn doctor_does_not_blame_a_server_that_speaks_only_tls() {
    let secure = Secure::start("doctor");
    // On a busy machine a server may seem to be down.
    let text = until("doctor finds nothing wrong", || {
        let (text, code) = secure.said(&["doctor", "--within", "20s"]);
        (code == 0).then_some(text)
    });
    assert!(text.starts_with("quorum      ok    1 of 1 servers serve\n"), "{text}");
    assert!(text.contains("\nauth        ok    "), "{text}");
    let unchecked = "Not looked at: words, connections, tick, containers, buffer, digests.";
    assert!(text.ends_with(&format!("\nNothing is wrong. {unchecked}\n")), "{text}");
    assert!(text.contains("\nacl         ok    only those with credentials may change "), "{text}");
    // What is found out in plain text cannot be.
    for check in ["connections note  not checked", "buffer      note  not checked"] {
        assert!(text.contains(check), "{text}");
    }
    secure.server.kill();
    let output = secure.zklock(&["doctor", "--within", "2s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("quorum      WRONG no server serves"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn who_shows_no_certificate_or_speaks_no_tls_is_told_that_there_is_no_session() {
    let secure = Secure::start("stranger");
    // The server is up, and knows who shows it.
    assert_eq!(secure.said(&["ls"]).1, 0);
    let said = |mut command: Command| {
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        println!("{text}");
        assert_eq!(output.status.code(), Some(69), "{text}");
        text
    };
    // The connection is accepted; on a busy machine it may be too late to say so.
    until("it says that there is no session", || {
        said(secure.stranger(&["ls"])).contains(" answers, but opens no session").then_some(())
    });
    let why = ["why", "a", "--within", "3s"];
    for asks in [secure.stranger(&why), secure.plain(&why)] {
        let text = said(asks);
        assert!(text.contains("ZooKeeper does not answer\n  127.0.0.1:"), "{text}");
    }
}

#[test]
fn doctor_says_what_helps_a_certificate() {
    let secure = Secure::start("helps");
    let root = secure.bed.path("");
    let root = root.trim_end_matches('/');
    let advised = |advice: &str| {
        // On a busy machine a server may seem to be down.
        until(advice, || {
            let (text, code) = secure.said(&["doctor", "--within", "20s"]);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            (code == 1 && text.contains(advice)).then_some(())
        });
    };
    let mut raw = RawClient::connect(&secure.server.addr(), BOUND).unwrap();
    raw.create(root, b"", CreateMode::Persistent).unwrap();
    advised(&format!("helps: zkCli.sh setAcl {root} auth::cdrwa, with the same certificate"));
    until("the root is gone", || {
        for lock in raw.children(root).unwrap() {
            let _ = raw.delete(&format!("{root}/{lock}"));
        }
        raw.delete(root).ok()
    });
    // Somebody with a password holds a lock, so that the root stays.
    let run = ["run", "a", "--", "sh", "-c", TWO];
    let mut holder = secure.bed.zklock_at(&secure.server.addr(), &run);
    holder.env("ZKLOCK_AUTH", "digest:app:right").env("ZKLOCK_ACL", "creator");
    let mut holder = holder.spawn().unwrap();
    secure.bed.pids("pids");
    let other = "set ZKLOCK_TLS_CERT and ZKLOCK_TLS_KEY to a certificate that the list names";
    advised(&format!("denies access to this certificate helps: {other}"));
    holder.kill().unwrap();
    holder.wait().unwrap();
}
