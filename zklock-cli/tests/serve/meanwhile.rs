//! What happens between the look at the locks and the question who is connected, and deletions that fail.

use serde_json::json;
use zklock_test_support::{CreateMode, ZooKeeper};

use crate::access::{ALL, BUT_DELETE, BUT_READ, allow};
use crate::bed::{Bed, CURATORS, make, raw, until};
use crate::client::{SERVE, Server};
use crate::documented::check;
use crate::front::Front;

/// Holds a lock until the file is gone.
const HOLDS: [&str; 6] =
    ["run", "a", "--", "sh", "-c", "echo > held; while [ -e held ]; do sleep 0.05; done"];

/// How the only hold of the lock ended, when it has.
fn end(server: &Server) -> String {
    server.events().lock("a", |lock| lock["free_since"].is_string());
    let timeline = server.get("/api/timeline?name=a").json();
    let spans = timeline["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 1, "{timeline}");
    spans[0]["end"].as_str().unwrap().to_owned()
}

#[test]
fn who_releases_while_the_page_asks_is_not_gone() {
    let bed = Bed::new("page-released");
    let mut holder = bed.zklock(&HOLDS).spawn().unwrap();
    bed.lines("held", 1);
    let front = Front::of(&ZooKeeper::shared().addr());
    let server = Server::run(bed.zklock_at(&front.addr, &SERVE));
    server.events().lock("a", |lock| lock["holders"][0].is_object());
    let held = bed.folder.join("held");
    front.before(move || {
        std::fs::remove_file(held).unwrap();
        assert!(holder.wait().unwrap().success());
    });
    assert_eq!(end(&server), "released");
}

#[test]
fn a_deletion_that_is_refused_breaks_nothing() {
    let bed = Bed::new("refused");
    std::fs::write(bed.folder.join("token"), "open-sesame\n").unwrap();
    let server = Server::of(&bed, &["--allow-break", "--token-file", "token"]);
    let mut holder = bed.zklock(&HOLDS).spawn().unwrap();
    bed.lines("held", 1);
    let lock = server.events().lock("a", |lock| lock["holders"][0].is_object());
    let one = &lock["holders"][0];
    let wanted = json!({ "name": "a", "node": one["node"], "czxid": one["czxid"] }).to_string();
    let headers = ["Content-Type: application/json", "Authorization: Bearer open-sesame"];
    allow(&bed.path("a"), BUT_DELETE);
    let answer = server.ask("POST", "/api/break", &headers, &wanted);
    assert_eq!(answer.code, 503, "{answer:?}");
    assert_eq!(bed.nodes("a").len(), 1);
    allow(&bed.path("a"), ALL);
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success());
    assert_eq!(end(&server), "released");
}

#[test]
fn what_may_not_be_read_is_named_on_the_page_and_the_rest_is_shown() {
    let bed = Bed::new("unread");
    let server = Server::of(&bed, &[]);
    let mut client = raw();
    for name in ["a", "b"] {
        let node = bed.path(&format!("{name}/{CURATORS}"));
        make(&mut client, &node, b"10.0.0.7", CreateMode::Ephemeral);
    }
    allow(&bed.path("b"), BUT_READ);
    let page = until("the rest is shown", || {
        let page = server.get("/api/locks").json();
        page["unread"].is_array().then_some(page)
    });
    check(&page, "page", "locks");
    assert_eq!(page["unread"], json!([bed.path("b")]));
    assert_eq!(
        (&page["locks"][0]["name"], page["locks"].as_array().unwrap().len()),
        (&"a".into(), 1)
    );
    client.close().unwrap();
}
