//! Deletions whose answers are late.

use std::io::Read;
use std::process::ChildStderr;
use std::time::Duration;

use serde_json::json;
use zklock_test_support::{Action, CreateMode, Matcher, OpCode, Proxy, RawClient, Rule, ZooKeeper};

use crate::bed::{BOUND, Bed, CURATORS, make, raw, until};
use crate::client::{Events, SERVE, Server};

/// A server that shows a lock, whose holder is to be deleted; the answer to that is held.
struct Late {
    server: Server,
    events: Events,
    said: ChildStderr,
    wanted: String,
    answer: Rule,
    _proxy: Proxy,
    holder: RawClient,
}

const HEADERS: [&str; 2] = ["Content-Type: application/json", "Authorization: Bearer open-sesame"];

impl Late {
    fn new(bed: &Bed, timeout: &str) -> Self {
        std::fs::write(bed.folder.join("token"), "open-sesame\n").unwrap();
        let mut holder = raw();
        make(&mut holder, &bed.path(&format!("a/{CURATORS}")), b"10.0.0.7", CreateMode::Ephemeral);
        let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
        let arguments = [&SERVE[..], &["--allow-break", "--token-file", "token"]].concat();
        let mut command = bed.zklock_at(&proxy.addr(), &arguments);
        command.env("ZKLOCK_TIMEOUT", timeout).env("ZKLOCK_RETRIES", "1");
        let mut server = Server::run(command);
        let said = server.process.stderr.take().unwrap();
        let mut events = server.events();
        let lock = events.lock("a", |lock| lock["holders"][0].is_object());
        let one = &lock["holders"][0];
        let wanted = json!({ "name": "a", "node": one["node"], "czxid": one["czxid"] }).to_string();
        let answer = proxy.on(Matcher::reply(OpCode::Multi), Action::Hold);
        Late { server, events, said, wanted, answer, _proxy: proxy, holder }
    }

    /// What the server says of the deletion, when its page says that the lock was broken.
    fn told(mut self) -> String {
        self.events.lock("a", |lock| lock["free_since"].is_string());
        // It may see that the node is gone before it is told that it has deleted it.
        until("the timeline says so", || {
            let timeline = self.server.get("/api/timeline?name=a").json();
            (timeline["spans"][0]["end"] == "broken").then_some(())
        });
        self.server.process.kill().unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        self.holder.close().unwrap();
        said
    }
}

#[test]
fn a_deletion_is_told_also_if_nobody_waits_for_its_answer() {
    let bed = Bed::new("left");
    let late = Late::new(&bed, "60s");
    let asking = late.server.sent("POST", "/api/break", &HEADERS, &late.wanted);
    assert!(late.answer.wait(1, BOUND));
    drop(asking);
    // By then it has seen the end of the other connection.
    for _ in 0..5 {
        assert_eq!(late.server.get("/").code, 200);
    }
    late.answer.release();
    let said = late.told();
    assert!(said.contains(" breaks \"a\": ") && said.ends_with(": deleted is true\n"), "{said}");
}

#[test]
fn of_a_deletion_that_is_not_answered_it_is_told_that_this_is_not_known() {
    let bed = Bed::new("doubt");
    let late = Late::new(&bed, "5s");
    let answer = late.server.ask("POST", "/api/break", &HEADERS, &late.wanted);
    assert_eq!(answer.code, 503, "{answer:?}");
    assert!(late.answer.wait(1, Duration::ZERO), "ZooKeeper did not answer before");
    late.answer.release();
    let said = late.told();
    let unknown = ": whether it was deleted is not known: a: ZooKeeper did not answer";
    assert!(said.contains(" breaks \"a\": ") && said.contains(unknown), "{said}");
}
