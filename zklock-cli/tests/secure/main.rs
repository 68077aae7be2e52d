//! The command over TLS, to a server whose port for it speaks nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../run/bed.rs"]
#[allow(dead_code, unused_imports, reason = "other tests need more of it")]
mod bed;

use std::fs;
use std::process::{Command, Output};

use zklock_test_support::{Certificates, ReservedPort, ZooKeeper};

use crate::bed::{Bed, TWO, until};

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
        let server = ZooKeeper::builder().tls(&certificates).cfg_line(&secure).start();
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

    fn zklock(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain(arguments);
        // The nodes are of whoever has the certificate.
        command.env("ZKLOCK_ACL", "creator");
        for (name, file) in [("CA", "ca"), ("CERT", "cert"), ("KEY", "key")] {
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
    assert!(text.ends_with("Nothing is wrong.\n") && code == 0, "{text}");
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
    assert!(text.ends_with("\nEverything is well.\n"), "{text}");
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
fn who_shows_no_certificate_is_told_that_there_is_no_session() {
    let secure = Secure::start("stranger");
    let output = secure.plain(&["why", "a", "--within", "3s"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("ZooKeeper does not answer\n  127.0.0.1:"), "{text}");
    assert_eq!(output.status.code(), Some(69));
}
