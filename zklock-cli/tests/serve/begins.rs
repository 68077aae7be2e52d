//! How it begins and ends.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::bed::{Bed, signal};
use crate::client::Server;

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_listens_on_this_machine_only_unless_told_otherwise() {
    let bed = Bed::new("listen");
    let help = String::from_utf8(bed.output(&["serve", "--help"]).stdout).unwrap();
    assert!(help.contains("[default: 127.0.0.1:8427]"), "{help}");
    // Another process may have that port here, which is told with the address.
    let mut plain = bed.zklock(&["serve"]).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(plain.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said.is_empty() {
        plain.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.starts_with("zklock: cannot listen on 127.0.0.1:8427: "), "{said}");
    } else {
        assert!(said.starts_with("the locks are on http://127.0.0.1:8427/ "), "{said}");
        // Another address of this machine, which reaches who listens on all of them.
        let elsewhere = TcpStream::connect("127.0.0.2:8427").unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::ConnectionRefused);
    }
    plain.kill().unwrap();
    plain.wait().unwrap();
    let mut server = Server::run(bed.zklock(&["serve", "--listen", "0.0.0.0:0"]));
    assert_eq!(server.get("/").code, 200);
    signal(&server.process, Signal::SIGTERM);
    let mut said = String::new();
    server.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("warning: everyone who can reach 0.0.0.0:"), "{said}");
}

#[test]
fn wrong_arguments_are_told_before_it_listens() {
    let bed = Bed::new("wrong");
    let file = |name: &str, text: &str| {
        let path = bed.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, blank, two) = (file("empty", ""), file("blank", " \n"), file("two", "a b\n"));
    for (arguments, why) in [
        (&["a//b"][..], "a//b"),
        (&["--listen", "nowhere"], "cannot listen on nowhere"),
        (&["--listen", "203.0.113.1:1"], "cannot listen on 203.0.113.1:1"),
        (&["--interval", "1ms"], "accepted is 100ms or longer"),
        (&["--host", "http://locks.example"], "\"http://locks.example\" is not the name of a host"),
        (&["--host", ""], "\"\" is not the name of a host"),
        (&["--allow-break"], "--token-file"),
        (&["--token-file", &empty], "--allow-break"),
        (&["--allow-break", "--token-file", &empty], "the file is empty"),
        (&["--allow-break", "--token-file", &blank], "the file is empty"),
        (&["--allow-break", "--token-file", &two], "a token is one word"),
        (&["--allow-break", "--token-file", "missing"], "No such file"),
    ] {
        let said = refused(&bed.output(&[&["serve"], arguments].concat()));
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_signal_ends_it_at_once_although_somebody_looks() {
    let bed = Bed::new("signal");
    for ending in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::of(&bed, &[]);
        let mut events = server.events();
        events.next("look", |look| look["trouble"].is_null());
        signal(&server.process, ending);
        let begin = Instant::now();
        let status = server.process.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{ending}");
        // Well below what an open stream or ZooKeeper could take.
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
