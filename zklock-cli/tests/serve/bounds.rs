//! Clients that take more than their share.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write, copy, sink};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use zklock_test_support::{CreateMode, ZooKeeper};

use crate::bed::{BOUND, Bed, raw, until};
use crate::client::{SERVE, Server, named};

/// Waits until the server ends a connection.
fn ended(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(BOUND)).unwrap();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            read => read.unwrap(),
        };
    }
}

#[test]
fn a_connection_on_which_nothing_passes_is_ended() {
    let bed = Bed::new("idle");
    let server = Server::of(&bed, &[]);
    let begins = |text: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let silent = begins("");
    let unfinished = begins("GET / HTTP/1.1\r\nHost: localhost\r\n");
    let answered = begins("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // Byte by byte it comes to no end either.
    let slow = begins("GET / HTTP/1.1\r\nX: ");
    thread::scope(|scope| {
        let trickle = scope.spawn(|| {
            until("its end", || (&slow).write_all(b"x").is_err().then_some(()));
        });
        [&silent, &unfinished, &answered].into_iter().for_each(ended);
        trickle.join().unwrap();
    });
}

#[test]
fn a_connection_is_not_ended_while_its_answer_is_prepared() {
    let bed = Bed::new("prepared");
    let name = locks(&bed, 1).remove(0);
    // It is silent, so that the answer takes as long as it may.
    let servers = format!("{},{}", ZooKeeper::shared().addr(), silent().0);
    let server = Server::run(bed.zklock_at(&servers, &SERVE));
    server.events().next("state", |state| state["locks"][0].is_object());
    let ask = |stream: &mut TcpStream, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).is_ok()
    };
    // On a busy machine the second request may come too late.
    until("an answer to a request that comes just before the end", || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        assert!(ask(&mut stream, "/icon.svg"));
        let mut read = vec![0; 65536];
        (stream.read(&mut read).ok()? > 0).then_some(())?;
        thread::sleep(Duration::from_millis(18_500));
        ask(&mut stream, &named("/api/why", &name)).then_some(())?;
        let size = stream.read(&mut read).ok()?;
        let answer = String::from_utf8_lossy(&read[..size]).into_owned();
        println!("{answer}");
        answer.starts_with("HTTP/1.1 200 OK").then_some(())
    });
}

#[test]
fn who_does_not_read_its_answers_is_left() {
    let bed = Bed::new("deaf");
    let server = Server::of(&bed, &[]);
    let mut deaf = TcpStream::connect(server.address).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    until("its end", || {
        match deaf.write_all(b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n") {
            Err(error) => (error.kind() != ErrorKind::WouldBlock).then_some(()),
            Ok(()) => None,
        }
    });
    assert_eq!(server.get("/").code, 200);
}

#[test]
fn streams_leave_room_for_what_is_asked() {
    let bed = Bed::new("streams");
    let server = Server::run(bed.zklock(&["serve", "--listen", "127.0.0.1:0"]));
    let mut all: Vec<_> = (0..200).map(|_| server.events()).collect();
    for one in &mut all {
        one.next("look", |_| true);
    }
    // Its first line only: it may have no end.
    let answer = || {
        let mut line = String::new();
        let stream = server.sent("GET", "/api/events", &[], "");
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    };
    assert!(answer().starts_with("HTTP/1.1 503 "));
    assert_eq!(server.get("/").code, 200);
    all.pop();
    until("room for another one", || answer().starts_with("HTTP/1.1 200 ").then_some(()));
}

#[test]
fn there_are_only_so_many_connections() {
    let bed = Bed::new("many");
    let server = Server::of(&bed, &[]);
    let many: Vec<_> = (0..300).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // When the time of those is over.
    assert_eq!(server.get("/").code, 200);
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.process.id())).unwrap().count();
    assert!(files < 300, "{files}");
    drop(many);
}

/// Locks that somebody holds.
fn locks(bed: &Bed, count: usize) -> Vec<String> {
    let mut client = raw();
    client.create(bed.path("").trim_end_matches('/'), b"", CreateMode::Persistent).unwrap();
    let names: Vec<_> = (0..count).map(|number| format!("a{number}")).collect();
    for name in &names {
        client.create(&bed.path(name), b"", CreateMode::Persistent).unwrap();
        let node = format!("{name}/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000");
        client.create(&bed.path(&node), b"10.0.0.7", CreateMode::Persistent).unwrap();
    }
    client.close().unwrap();
    names
}

/// One of two servers is silent, so that each question takes as long as it may.
#[test]
fn who_asks_with_many_others_is_answered_all_the_same() {
    let bed = Bed::new("asked");
    let names = locks(&bed, 30);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!("{},{}", ZooKeeper::shared().addr(), silent.local_addr().unwrap());
    let server = Server::run(bed.zklock_at(&servers, &SERVE));
    server.events().next("state", |state| state["locks"].as_array().unwrap().len() == names.len());
    let ask = |name: &str| {
        let begin = Instant::now();
        let answer = server.get(&named("/api/why", name));
        match answer.code {
            200 => assert_eq!(answer.json()["name"], name),
            code => assert!(code == 503 && answer.json()["error"].is_string(), "{answer:?}"),
        }
        (begin.elapsed(), answer.code)
    };
    // Not at once on a busy machine, perhaps.
    until("all are answered within ten seconds, and more than one at a time could be", || {
        let mut all: Vec<_> = thread::scope(|scope| {
            let asking: Vec<_> = names.iter().map(|name| scope.spawn(|| ask(name))).collect();
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        all.sort();
        println!("{all:?}");
        let told = all.iter().filter(|(_, code)| *code == 200).count();
        (all[names.len() - 1].0 < Duration::from_secs(10) && told > 4).then_some(())
    });
}

/// A server that never answers, and how many sessions are being opened at it at the same time, at most.
fn silent() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (open, most) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let highest = most.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (open, most) = (open.clone(), most.clone());
            thread::spawn(move || {
                let (mut client, mut begin) = (client.ok()?, [0]);
                client.read_exact(&mut begin).ok()?;
                // Four-letter words begin with a letter, and requests with their length.
                if begin == [0] {
                    most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                    _ = copy(&mut client, &mut sink());
                    open.fetch_sub(1, SeqCst);
                }
                Some(())
            });
        }
    });
    (address, highest)
}

/// What they have asked for is asked all the same, for as long as the servers may take to answer.
#[test]
fn who_leaves_makes_no_room_for_another_question() {
    let bed = Bed::new("leave");
    let names = locks(&bed, 40);
    let (silent, most) = silent();
    let servers = format!("{},{silent}", ZooKeeper::shared().addr());
    let server = Server::run(bed.zklock_at(&servers, &SERVE));
    server.events().next("state", |state| state["locks"].as_array().unwrap().len() == names.len());
    most.store(0, SeqCst);
    for name in &names {
        let asking = server.sent("GET", &named("/api/why", name), &[], "");
        thread::sleep(Duration::from_millis(50));
        drop(asking);
    }
    let most = most.load(SeqCst);
    // Those of four questions, and of the session of the server itself.
    assert!((1..=8).contains(&most), "{most}");
}
