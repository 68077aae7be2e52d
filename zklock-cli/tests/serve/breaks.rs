//! Breaking a lock, for those who have the token.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::bed::{Bed, TWO};
use crate::client::Server;
use crate::documented::check;

const TYPE: &str = "Content-Type: application/json";
const TOKEN: &str = "Authorization: Bearer open-sesame";

fn serve(bed: &Bed, arguments: &[&str]) -> Server {
    std::fs::write(bed.folder.join("token"), "open-sesame\n").unwrap();
    Server::of(bed, &[&["--allow-break", "--token-file", "token"], arguments].concat())
}

/// Who holds a lock, as the page names it.
fn holder(server: &Server, name: &str) -> Value {
    let lock = server.events().lock(name, |lock| lock["holders"][0].is_object());
    let one = &lock["holders"][0];
    json!({ "name": name, "node": one["node"], "czxid": one["czxid"] })
}

#[test]
fn without_the_option_it_only_shows() {
    let bed = Bed::new("reads");
    let server = Server::of(&bed, &[]);
    assert_eq!(server.ask("POST", "/api/break", &[TYPE, TOKEN], "{}").code, 404);
    assert_eq!(server.get("/api/locks").json()["breaks"], false);
    for path in ["/", "/api/locks", "/api/events", "/api/why?name=a", "/api/timeline?name=a"] {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            assert_eq!(server.ask(method, path, &[TYPE, TOKEN], "{}").code, 405, "{method} {path}");
        }
    }
}

#[test]
fn only_who_has_the_token_breaks_a_lock() {
    let bed = Bed::new("token");
    let server = serve(&bed, &[]);
    let mut process = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let mut wanted = holder(&server, "a");
    let body = wanted.to_string();
    let fields = include_str!("../../JSON.md");
    for header in [TYPE, TOKEN].map(|header| header.replace("open-sesame", "TOKEN")) {
        assert!(fields.contains(&format!("`{header}`")), "{header}");
    }
    let wrong = [
        "X: none",
        "Authorization: Bearer open-sesam",
        "Authorization: Bearer open-sesame1",
        "Authorization: Bearer Open-sesame",
        "Authorization: Bearer open-sesamE",
        "Authorization: Bearer ",
        "Authorization: open-sesame",
        "Cookie: token=open-sesame",
    ];
    for header in wrong {
        let answer = server.ask("POST", "/api/break", &[TYPE, header], &body);
        assert_eq!(answer.code, 401, "{header}: {answer:?}");
    }
    let in_url = "/api/break?token=open-sesame&access_token=open-sesame";
    assert_eq!(server.ask("POST", in_url, &[TYPE], &body).code, 401);
    assert_eq!(server.ask("GET", "/api/break", &[TOKEN], "").code, 405);
    assert_eq!(
        server.ask("POST", "/api/break", &["Content-Type: text/plain", TOKEN], &body).code,
        415
    );
    assert_eq!(server.ask("POST", "/api/break", &[TYPE, TOKEN], "{}").code, 400);
    let asked = |wanted: &Value| {
        let answer = server.ask("POST", "/api/break", &[TYPE, TOKEN], &wanted.to_string());
        assert_eq!(answer.code, 200, "{answer:?}");
        check(&answer.json(), "break", "break");
        answer.json()["deleted"].as_bool().unwrap()
    };
    let right = wanted.clone();
    wanted["czxid"] = "0x1".into();
    assert!(!asked(&wanted));
    assert_eq!(bed.nodes("a").len(), 1);
    assert!(asked(&right));
    assert_eq!(process.wait().unwrap().code(), Some(124));
    assert!(!asked(&right));
    server.events().lock("a", |lock| lock["free_since"].is_string());
    let ended = server.get("/api/timeline?name=a").json();
    assert_eq!(ended["spans"][0]["end"], "broken", "{ended}");
}

/// Whoever asks has seen a waiter.
#[test]
fn who_came_to_hold_the_lock_meanwhile_is_not_broken_as_a_waiter() {
    let bed = Bed::new("meanwhile");
    let server = serve(&bed, &[]);
    let mut process = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let mut wanted = holder(&server, "a");
    let mut asked = |holds: Value| {
        wanted["holds"] = holds;
        server.ask("POST", "/api/break", &[TYPE, TOKEN], &wanted.to_string())
    };
    let refused = asked(false.into());
    assert_eq!((refused.code, bed.nodes("a").len()), (409, 1));
    assert_eq!(refused.json()["error"], "it holds the lock now: look at it again");
    assert_eq!(asked("no".into()).code, 400);
    assert_eq!(asked(true.into()).json()["deleted"], true);
    process.wait().unwrap();
}

/// All but the port, which is another one each time, and what is of one deletion only.
#[test]
fn the_guide_shows_what_it_says() {
    let shown = include_str!("../../README.md").lines().collect::<Vec<_>>();
    let bed = Bed::new("guide");
    let as_shown =
        |server: &Server| server.says.trim().replace(&server.address.to_string(), "127.0.0.1:8427");
    let reads = Server::of(&bed, &[]);
    assert!(shown.contains(&&*as_shown(&reads)), "{}", reads.says);
    let mut server = serve(&bed, &[]);
    assert!(shown.contains(&&*as_shown(&server)), "{}", server.says);
    let mut process = bed.zklock(&["run", "nightly", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let wanted = holder(&server, "nightly");
    let answer = server.ask("POST", "/api/break", &[TYPE, TOKEN], &wanted.to_string());
    assert_eq!(answer.code, 200, "{answer:?}");
    process.wait().unwrap();
    let said =
        BufReader::new(server.process.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    // The address of the client, the node and its czxid.
    let of_all = |line: &str| {
        let words = line.split(' ').enumerate().filter(|(at, _)| ![1, 5, 7].contains(at));
        words.map(|(_, word)| word.to_owned()).collect::<Vec<_>>()
    };
    assert!(shown.iter().any(|line| of_all(line) == of_all(&said)), "{said}");
    assert!(said.contains(wanted["node"].as_str().unwrap()), "{said}");
}

#[test]
fn what_is_not_shown_is_not_broken() {
    let bed = Bed::new("outside");
    let mut process = bed.zklock(&["run", "b", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let wanted = holder(&serve(&bed, &[]), "b").to_string();
    let server = serve(&bed, &["a"]);
    server.events().next("state", |_| true);
    assert_eq!(server.ask("POST", "/api/break", &[TYPE, TOKEN], &wanted).code, 404);
    assert_eq!(bed.nodes("b").len(), 1);
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_page_of_another_origin_breaks_nothing_even_with_the_token() {
    let bed = Bed::new("origin");
    let server = serve(&bed, &[]);
    let mut process = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let body = holder(&server, "a").to_string();
    let port = server.address.port();
    for foreign in [
        "Origin: http://evil.example".to_owned(),
        "Origin: null".to_owned(),
        format!("Origin: http://127.0.0.1:{}", port ^ 1),
        format!("Origin: http://localhost:{port}"),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
        format!("Host: evil.example:{port}"),
    ] {
        let answer = server.ask("POST", "/api/break", &[TYPE, TOKEN, &foreign], &body);
        assert_eq!(answer.code, 403, "{foreign}: {answer:?}");
    }
    assert_eq!(server.ask("OPTIONS", "/api/break", &["Origin: http://evil.example"], "").code, 403);
    assert_eq!(bed.nodes("a").len(), 1);
    let own =
        [&format!("Origin: http://127.0.0.1:{port}"), "Sec-Fetch-Site: same-origin", TYPE, TOKEN];
    assert_eq!(server.ask("POST", "/api/break", &own, &body).json()["deleted"], true);
    process.wait().unwrap();
}
