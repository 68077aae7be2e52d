//! Breaking a lock by hand.

use crate::bed::{Bed, TWO};
use crate::browser::Browser;
use crate::client::Server;

#[test]
fn a_lock_is_broken_by_who_knows_the_token() {
    let browser = Browser::start();
    let bed = Bed::new("break");
    std::fs::write(bed.folder.join("token"), "open-sesame\n").unwrap();
    let server = Server::of(&bed, &["--allow-break", "--token-file", "token"]);
    let mut process = bed.zklock(&["run", "a b", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    browser.open(&format!("http://{}/#lock=a%20b", server.address));
    browser.shows("#holders .card", |text| text.contains("Break"));
    browser.click("#holders button");
    let node = bed.nodes("a b").remove(0);
    let node = node.rsplit('/').next().unwrap();
    let command = format!("zklock break 'a b' --node {node} --czxid 0x");
    browser.shows("#break-what", |text| text.starts_with(&command));
    browser.types("#token", "sesame");
    browser.click("#break-yes");
    browser.shows("#break-error", |text| text == "this is not the token of --token-file");
    assert_eq!(bed.nodes("a b").len(), 1);
    browser.run("document.getElementById('token').value = ''");
    browser.types("#token", "open-sesame");
    browser.click("#break-yes");
    assert_eq!(process.wait().unwrap().code(), Some(124));
    browser.shows("#holders", |text| text == "nobody holds it");
    browser.shows("#break[open]", str::is_empty);
    assert_eq!(browser.run("return document.getElementById('token').value"), "");
    browser.shows("#timeline svg", |text| text.contains("broken"));
    assert_eq!(browser.run("return location.search + localStorage.length"), "0");
}
