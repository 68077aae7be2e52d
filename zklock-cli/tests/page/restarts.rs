//! What is seen while something that is needed is away.

use zklock_test_support::{ReservedPort, ZooKeeper};

use crate::bed::{Bed, TWO};
use crate::browser::Browser;
use crate::client::{SERVE, Server};

#[test]
fn the_page_goes_on_after_a_restart_of_zookeeper() {
    let browser = Browser::start();
    let bed = Bed::new("zookeeper");
    let zookeeper = ZooKeeper::start();
    let at = zookeeper.addr();
    let mut process = bed.zklock_at(&at, &["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let server = Server::run(bed.zklock_at(&at, &SERVE));
    browser.open(&format!("http://{}/", server.address));
    browser.run("window.same = true");
    browser.shows("#rows a", |text| text == "a");
    zookeeper.kill();
    let trouble = browser.shows("#trouble:not([hidden])", |text| text.contains("ZooKeeper"));
    assert!(trouble.contains(", since ") && trouble.contains("seen last"), "{trouble}");
    assert_eq!((browser.text("#status"), browser.text("#rows a")), ("old".into(), "a".into()));
    zookeeper.restart();
    browser.shows("#status", |text| text == "live");
    browser.shows("#trouble:not([hidden])", str::is_empty);
    process.kill().unwrap();
    process.wait().unwrap();
    browser.shows("#rows tr", |text| text.contains("free for"));
    assert_eq!(browser.run("return window.same"), true, "the page was loaded again");
}

#[test]
fn the_page_goes_on_after_a_restart_of_its_server() {
    let browser = Browser::start();
    let bed = Bed::new("server");
    // Nobody else takes it in between.
    let port = ReservedPort::reserve();
    let address = format!("127.0.0.1:{}", port.number());
    let serve = || Server::run(bed.zklock(&["serve", "--listen", &address]));
    let server = serve();
    browser.open(&format!("http://{address}/"));
    browser.run("window.same = true");
    browser.shows("#status", |text| text == "live");
    drop(server);
    let trouble = browser.shows("#trouble:not([hidden])", |text| text.contains("No connection"));
    assert!(trouble.contains("since "), "{trouble}");
    let mut process = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let _server = serve();
    browser.shows("#status", |text| text == "live");
    browser.shows("#rows a", |text| text == "a");
    assert_eq!(browser.run("return window.same"), true, "the page was loaded again");
    process.kill().unwrap();
    process.wait().unwrap();
}
