//! What is seen.

use std::fs::remove_file;

use zklock_test_support::{CreateMode, ZooKeeper};

use crate::bed::{Bed, TWO, make, raw};
use crate::browser::Browser;
use crate::client::{SERVE, Server};

/// Holds until its file is gone.
fn holds(file: &str) -> String {
    format!("echo > {file}; while [ -e {file} ]; do sleep 0.05; done")
}

#[test]
fn a_lock_is_taken_waited_for_and_released_before_the_eyes() {
    let bed = Bed::new("page");
    let server = Server::of(&bed, &[]);
    let browser = Browser::start();
    browser.open(&format!("http://{}/", server.address));
    browser.run("window.same = true");
    browser.shows("#status", |text| text == "live");
    browser.shows("#empty", |text| text == "no lock is in use");

    let run = ["run", "orders/7", "--label", "night 7", "--", "sh", "-c", &holds("one")];
    let mut holder = bed.zklock(&run).spawn().unwrap();
    let row = browser.shows("#rows tr", |text| text.contains("night 7"));
    assert!(row.contains("orders/7") && row.contains("mutex") && row.contains("sh on "), "{row}");
    let wait = ["run", "orders/7", "--timeout", "60s", "--", "sh", "-c", &holds("two")];
    let mut waiter = bed.zklock(&wait).spawn().unwrap();
    browser.shows("#rows tr td:nth-child(6)", |text| text == "1");
    // How long it has been held, and waited for.
    for column in [5, 7] {
        browser.shows(&format!("#rows tr td:nth-child({column})"), |text| text.ends_with(" s"));
    }
    browser.shows("#totals", |text| text == "1 in use, 1 waiting, 0 suspect");

    browser.click("#rows a");
    browser.shows("#name", |text| text == "orders/7");
    let card = browser.shows("#holders .card", |text| text.contains("0x") && !text.contains('…'));
    assert!(card.contains("night 7") && card.contains("czxid 0x"), "{card}");
    assert!(card.contains("timeout 20 s"), "{card}");
    assert_eq!(browser.count("#queue tbody tr"), 1);
    let waits = browser.text("#queue tbody tr");
    assert!(waits.contains("sh on ") && waits.contains("czxid 0x"), "{waits}");
    browser.shows("#why", |text| text.contains("Nothing is wrong in ZooKeeper: another one waits"));
    browser.shows("#timeline rect.waiting title", |_| browser.count("#timeline rect.waiting") == 1);
    assert_eq!(browser.count("#timeline rect.held"), 1);
    assert_eq!(browser.count("#detail button"), 0, "it only shows");

    remove_file(bed.folder.join("one")).unwrap();
    assert!(holder.wait().unwrap().success());
    browser.shows("#queue", |text| text == "nobody waits");
    browser.shows("#timeline svg", |_| browser.count("#timeline rect.held") == 2);
    bed.lines("two", 1);
    remove_file(bed.folder.join("two")).unwrap();
    browser.shows("#holders", |text| text == "nobody holds it");
    assert!(waiter.wait().unwrap().success());
    browser.click("#detail a");
    browser.shows("#rows tr", |text| text.contains("orders/7") && text.contains("free for"));
    assert_eq!(browser.run("return window.same"), true, "the page was loaded again");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_name_that_is_markup_is_shown_as_it_is() {
    // First, for its start takes what holders of locks need to keep them.
    let browser = Browser::start();
    let bed = Bed::new("markup");
    let server = Server::of(&bed, &[]);
    let name = "<img src=x onerror=alert(1)>\"'&amp;%2F";
    let label = "<script>alert(2)</script>";
    let mut process =
        bed.zklock(&["run", name, "--label", label, "--", "sh", "-c", TWO]).spawn().unwrap();
    browser.open(&format!("http://{}/", server.address));
    browser.shows("#rows a", |text| text == name);
    browser.shows("#rows tr", |text| text.contains(label));
    browser.click("#rows a");
    browser.shows("#name", |text| text == name);
    browser.shows("#holders .card", |text| text.contains(label));
    browser.shows("#why", |text| text == "Nothing is wrong.");
    browser.shows("#timeline text.who", |text| text.starts_with("sh "));
    assert_eq!(browser.count("main img") + browser.count("main script"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn how_long_a_lock_is_held_is_shown_beside_what_is_usual() {
    let bed = Bed::new("usual");
    let server = Server::of(&bed, &[]);
    let browser = Browser::start();
    let mut first = bed.zklock(&["run", "a", "--", "sh", "-c", &holds("one")]).spawn().unwrap();
    bed.lines("one", 1);
    browser.open(&format!("http://{}/", server.address));
    browser.shows("#rows a", |text| text == "a");
    browser.click("#rows a");
    let usual = "#holders .card .usual";
    browser.shows(usual, |text| text == "not known: nobody was in the queue before");
    // Whenever nobody holds the lock, the server may remove an empty container, and with it the number of those
    // who left.
    make(&mut raw(), &bed.path("a/kept"), b"", CreateMode::Persistent);
    remove_file(bed.folder.join("one")).unwrap();
    assert!(first.wait().unwrap().success());
    for _ in 0..3 {
        assert!(bed.zklock(&["run", "a", "--", "true"]).status().unwrap().success());
    }
    let mut last = bed.zklock(&["run", "a", "--", "sh", "-c", &holds("two")]).spawn().unwrap();
    bed.lines("two", 1);
    let says = browser.shows(usual, |text| text.starts_with("one leaves the queue every "));
    assert!(says.contains(" (4 in ") && says.contains(" before): this is "), "{says}");
    // It is asked again, and goes on.
    browser.shows(usual, |text| text.starts_with("one leaves ") && text != says);
    remove_file(bed.folder.join("two")).unwrap();
    assert!(last.wait().unwrap().success());
    browser.shows("#holders", |text| text == "nobody holds it");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A server as Debian ships it.
#[test]
fn whether_the_holder_lives_is_not_told_where_no_server_tells_it() {
    let browser = Browser::start();
    let bed = Bed::new("untold");
    let words = "zookeeper.4lw.commands.whitelist";
    let zookeeper = ZooKeeper::builder().java_property(words, "srvr").start();
    let at = zookeeper.addr();
    let mut process = bed.zklock_at(&at, &["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let server = Server::run(bed.zklock_at(&at, &SERVE));
    browser.open(&format!("http://{}/", server.address));
    browser.shows("#rows a", |text| text == "a");
    browser.click("#rows a");
    browser.shows("#why", |text| {
        text == "Nothing is wrong, as far as it is known: whether the holder lives is not told."
    });
    let session = browser.shows("#holders .card .session", |text| text.starts_with("0x"));
    let why = "; when it was last heard is not known: ";
    assert!(session.contains(why) && session.contains("`cons`"), "{session}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    process.kill().unwrap();
    process.wait().unwrap();
}
