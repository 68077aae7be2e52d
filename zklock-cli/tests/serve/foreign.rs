//! Pages of others, and names that are markup.

use crate::bed::{Bed, TWO};
use crate::client::Server;

#[test]
fn only_names_of_this_server_are_answered() {
    let bed = Bed::new("hosts");
    let server = Server::of(&bed, &["--host", "locks.example"]);
    for (host, code) in [
        ("Host: evil.example", 403),
        ("Host: 127.0.0.1.evil.example", 403),
        ("Host: ", 403),
        ("Host: localhost", 200),
        ("Host: [::1]:1", 200),
        ("Host: locks.example", 200),
    ] {
        for path in ["/", "/page.js", "/api/locks"] {
            assert_eq!(server.ask("GET", path, &[host], "").code, code, "{host}{path}");
        }
    }
}

#[test]
fn pages_of_other_origins_read_nothing() {
    let bed = Bed::new("reads");
    let server = Server::of(&bed, &[]);
    for foreign in ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"] {
        let answer = server.ask("GET", "/api/locks", &[foreign], "");
        assert_eq!(answer.code, 403, "{answer:?}");
        assert!(!answer.head.contains("access-control-allow"), "{answer:?}");
    }
    // A link to the page.
    assert_eq!(server.ask("GET", "/", &["Sec-Fetch-Site: cross-site"], "").code, 200);
}

#[test]
fn a_name_that_is_markup_stays_text() {
    let bed = Bed::new("markup");
    let server = Server::of(&bed, &[]);
    let name = "evil<img src=x onerror=alert(1)>&\"'%2F";
    let run = ["run", name, "--label", "<script>1</script>", "--", "sh", "-c", TWO];
    let mut process = bed.zklock(&run).spawn().unwrap();
    bed.lines("pids", 2);
    let shown = server.events().next("state", |state| state["locks"][0].is_object());
    assert_eq!(shown["locks"][0]["name"], name);
    let why = server.why(name);
    assert_eq!(why.json()["name"], name);
    assert!(why.head.contains("content-type: application/json"), "{why:?}");
    assert!(why.head.contains("x-content-type-options: nosniff"), "{why:?}");
    process.kill().unwrap();
    process.wait().unwrap();
}

/// The browser itself would refuse most of it, by the policy.
#[test]
fn the_page_makes_no_markup_of_text_and_loads_nothing_from_elsewhere() {
    let bed = Bed::new("page");
    let server = Server::of(&bed, &[]);
    for (path, kind) in
        [("/", "html"), ("/page.js", "javascript"), ("/page.css", "css"), ("/icon.svg", "svg")]
    {
        let answer = server.get(path);
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.head.contains(kind), "{}", answer.head);
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "trusted-types 'none'",
        ] {
            assert!(answer.head.contains(part), "{part}: {}", answer.head);
        }
        let text = answer.body.replace("http://www.w3.org/2000/svg", "");
        for bad in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "http://",
            "https://",
            " style=",
        ] {
            assert!(!text.contains(bad), "{path} has {bad}");
        }
    }
    assert_eq!(server.get("/nowhere").code, 404);
}
