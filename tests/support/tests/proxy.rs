//! The proxy, in front of a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use zklock_test_support::{
    Action, CreateMode, Cut, Direction, Matcher, OpCode, Proxy, RawClient, RawError, ZooKeeper,
};

const LONG: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

fn bed() -> (Proxy, RawClient) {
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let client = RawClient::connect(&proxy.addr(), LONG).unwrap();
    (proxy, client)
}

/// Looks past the proxy.
fn exists(path: &str) -> bool {
    RawClient::connect(&ZooKeeper::shared().addr(), LONG).unwrap().exists(path, false).unwrap()
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let limit = Instant::now() + SOON;
    while !check() {
        assert!(Instant::now() < limit, "not in 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn io_kind<T: std::fmt::Debug>(result: Result<T, RawError>) -> ErrorKind {
    match result {
        Err(RawError::Io(err)) => err.kind(),
        other => panic!("not a broken connection: {other:?}"),
    }
}

#[test]
fn counts_and_logs_what_passes() {
    let (proxy, mut client) = bed();
    client.create("/logged", b"1", CreateMode::Persistent).unwrap();
    client.exists("/logged", true).unwrap();
    client.set_data("/logged", b"22").unwrap();
    assert_eq!(client.next_event().unwrap(), "/logged");
    assert!(matches!(client.delete("/no"), Err(RawError::Code(-101))));
    client.ping().unwrap();
    let made = client.create("/logged-", b"", CreateMode::EphemeralSequential).unwrap();
    assert_eq!(proxy.requests(OpCode::Create), 2);
    assert_eq!(proxy.requests(OpCode::Ping), 1);
    assert_eq!(proxy.requests_total(), 5);
    assert_eq!(proxy.watch_events(), 1);
    assert_eq!((proxy.connections(), proxy.connections_total()), (1, 1));
    let log = proxy.log();
    assert_eq!(log.iter().map(|frame| frame.len as u64).sum::<u64>(), proxy.bytes());
    let replies: Vec<_> = log.iter().filter(|f| f.direction == Direction::ToClient).collect();
    let seen: Vec<_> = replies.iter().map(|f| (f.opcode, f.path.as_deref(), f.err)).collect();
    let mut expected = vec![
        (OpCode::Connect, None, 0),
        (OpCode::Create, Some("/logged"), 0),
        (OpCode::Exists, Some("/logged"), 0),
        (OpCode::Notification, Some("/logged"), 0),
        (OpCode::SetData, Some("/logged"), 0),
        (OpCode::Delete, Some("/no"), -101),
        (OpCode::Ping, None, 0),
        (OpCode::Create, Some(made.as_str()), 0),
    ];
    if seen[3].0 == OpCode::SetData {
        expected.swap(3, 4);
    }
    assert_eq!(seen, expected);
    assert!(replies[1..].iter().all(|frame| frame.session == client.session().id));
    proxy.clear_log();
    assert!(proxy.log().is_empty());
}

#[test]
fn who_writes_and_closes_at_once_is_heard() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::tcp(server.local_addr().unwrap());
    for _ in 0..200 {
        let mut client = TcpStream::connect(proxy.socket_addr()).unwrap();
        client.write_all(b"hello").unwrap();
        drop(client);
        let mut heard = String::new();
        server.accept().unwrap().0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");
    }
}

#[test]
fn lost_reply_leaves_the_request_applied() {
    let (proxy, mut client) = bed();
    let lost = Matcher::reply(OpCode::Create).path("/lost-reply");
    let rule = proxy.on(lost, Action::DropAndCut(Cut::Fin));
    let key = client.session().clone();
    let kind = io_kind(client.create("/lost-reply", b"", CreateMode::Ephemeral));
    assert_eq!(kind, ErrorKind::UnexpectedEof);
    assert_eq!(rule.hits(), 1);
    assert!(exists("/lost-reply"));
    let mut again = RawClient::resume(&proxy.addr(), &key).unwrap();
    again.delete("/lost-reply").unwrap();
}

#[test]
fn swallowed_request_is_never_applied() {
    let (proxy, mut client) = bed();
    let second = Matcher::request(OpCode::Create).path("/swallowed").nth(2);
    let rule = proxy.on(second, Action::DropAndCut(Cut::Reset));
    client.create("/swallowed-1", b"", CreateMode::Ephemeral).unwrap();
    let kind = io_kind(client.create("/swallowed-2", b"", CreateMode::Ephemeral));
    assert_eq!(kind, ErrorKind::ConnectionReset);
    assert!(rule.wait(1, SOON));
    assert_eq!(proxy.requests(OpCode::Create), 1);
    assert!(exists("/swallowed-1") && !exists("/swallowed-2"));
    assert!(
        proxy.log().iter().any(|f| f.was_dropped() && f.path.as_deref() == Some("/swallowed-2"))
    );
}

#[test]
fn forwarded_request_is_applied_behind_the_cut() {
    for (way, kind) in
        [(Cut::Fin, ErrorKind::UnexpectedEof), (Cut::Reset, ErrorKind::ConnectionReset)]
    {
        let (proxy, mut client) = bed();
        let path = format!("/forwarded-{way:?}");
        proxy.on(Matcher::request(OpCode::Create).path(&path), Action::ForwardAndCut(way));
        assert_eq!(io_kind(client.create(&path, b"", CreateMode::Ephemeral)), kind);
        eventually("the request is applied", || exists(&path));
    }
}

#[test]
fn reply_before_a_cut_arrives() {
    for way in [Cut::Fin, Cut::Reset] {
        let (proxy, mut client) = bed();
        proxy.on(Matcher::reply(OpCode::Exists), Action::ForwardAndCut(way));
        assert!(!client.exists("/none", false).unwrap());
        assert!(client.ping().is_err());
    }
}

#[test]
fn dropped_reply_leaves_the_connection_alone() {
    let (proxy, mut client) = bed();
    proxy.on(Matcher::reply(OpCode::Exists).first(1), Action::Drop);
    let swallowed = client.send(OpCode::Exists, b"\0\0\0\x05/none\0").unwrap();
    let answered = client.send(OpCode::Exists, b"\0\0\0\x05/none\0").unwrap();
    let reply = client.receive().unwrap();
    assert_eq!((reply.xid, reply.err), (answered, -101));
    assert_eq!(answered, swallowed + 1);
}

#[test]
fn held_reply_comes_when_it_is_released() {
    let (proxy, mut client) = bed();
    let rule = proxy.on(Matcher::reply(OpCode::Create), Action::Hold);
    client.set_read_timeout(Some(SHORT));
    assert!(client.create("/held", b"", CreateMode::Ephemeral).is_err());
    assert!(rule.wait(1, SOON));
    assert!(exists("/held"));
    rule.release();
    client.set_read_timeout(Some(SOON));
    assert_eq!(client.receive().unwrap().err, 0);
    assert_eq!(rule.hits(), 1);
    client.ping().unwrap();
}

#[test]
fn held_connection_can_be_cut() {
    let (proxy, mut client) = bed();
    let rule = proxy.on(Matcher::request(OpCode::Create), Action::Hold);
    client.set_read_timeout(Some(SHORT));
    assert!(client.create("/held-and-cut", b"", CreateMode::Ephemeral).is_err());
    assert!(rule.wait(1, SOON));
    proxy.cut_reset();
    client.set_read_timeout(Some(SOON));
    assert_eq!(io_kind(client.receive()), ErrorKind::ConnectionReset);
    rule.release();
    assert!(!exists("/held-and-cut"));
}

#[test]
fn cuts_end_all_connections_each_in_its_way() {
    let (proxy, mut one) = bed();
    let mut two = RawClient::connect(&proxy.addr(), LONG).unwrap();
    proxy.cut_fin();
    assert_eq!(proxy.connections(), 0);
    for client in [&mut one, &mut two] {
        assert_eq!(io_kind(client.receive()), ErrorKind::UnexpectedEof);
    }
    let keys = [one.session().clone(), two.session().clone()];
    let [mut one, mut two] = keys.map(|key| RawClient::resume(&proxy.addr(), &key).unwrap());
    proxy.cut_session(one.session().id, Cut::Reset);
    assert_eq!(io_kind(one.receive()), ErrorKind::ConnectionReset);
    two.ping().unwrap();
    proxy.cut_reset();
    assert_eq!(io_kind(two.receive()), ErrorKind::ConnectionReset);
}

#[test]
fn black_hole_is_silent_and_loses_nothing() {
    let (proxy, mut client) = bed();
    proxy.black_hole(true);
    client.set_read_timeout(Some(SHORT));
    assert_eq!(io_kind(client.create("/hole", b"", CreateMode::Ephemeral)), ErrorKind::WouldBlock);
    assert!(!exists("/hole"));
    // A new connection comes about and hears nothing.
    let mut knock = TcpStream::connect(proxy.addr()).unwrap();
    knock.set_read_timeout(Some(SHORT)).unwrap();
    knock.write_all(b"ruok").unwrap();
    assert_eq!(knock.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(knock);
    proxy.black_hole(false);
    client.set_read_timeout(Some(SOON));
    assert_eq!(client.receive().unwrap().err, 0);
    assert!(exists("/hole"));
}

#[test]
fn one_way_hole_lets_requests_through() {
    let (proxy, mut client) = bed();
    proxy.black_hole_one_way(Direction::ToClient, true);
    client.send(OpCode::Ping, &[]).unwrap();
    client.set_read_timeout(Some(SHORT));
    assert!(client.create("/one-way", b"", CreateMode::Ephemeral).is_err());
    assert!(exists("/one-way"));
    proxy.heal();
    client.set_read_timeout(Some(SOON));
    assert_eq!(client.receive().unwrap().xid, -2);
    assert_eq!(client.receive().unwrap().err, 0);
}

#[test]
fn delay_shifts_and_does_not_slow_down() {
    let (proxy, mut client) = bed();
    proxy.delay(Duration::from_millis(100));
    let start = Instant::now();
    for _ in 0..20 {
        client.send(OpCode::Exists, b"\0\0\0\x05/none\0").unwrap();
    }
    for _ in 0..20 {
        client.receive().unwrap();
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
    // One after the other would take 4 s.
    assert!(took < Duration::from_millis(1500), "{took:?}");
    proxy.delay(Duration::ZERO);
    proxy.on(Matcher::reply(OpCode::Ping), Action::Delay(SHORT));
    let start = Instant::now();
    client.ping().unwrap();
    assert!(start.elapsed() >= SHORT);
}

#[test]
fn refused_clients_cannot_connect_and_others_stay() {
    let (proxy, mut client) = bed();
    for _ in 0..3 {
        proxy.refuse(true);
        let refused = TcpStream::connect(proxy.addr()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        client.ping().unwrap();
        proxy.refuse(false);
        TcpStream::connect(proxy.addr()).unwrap();
    }
}

#[test]
fn who_is_cut_off_by_a_rule_that_refuses_does_not_come_back() {
    let (proxy, mut client) = bed();
    let cut = Action::DropAndCut(Cut::Reset);
    let rule = proxy.on_and_refuse(Matcher::reply(OpCode::Exists), cut);
    RawClient::connect(&proxy.addr(), LONG).unwrap().close().unwrap();
    assert!(client.exists("/none", false).is_err());
    let refused = TcpStream::connect(proxy.addr()).unwrap_err();
    assert_eq!((refused.kind(), rule.hits()), (ErrorKind::ConnectionRefused, 1));
    proxy.heal();
    RawClient::connect(&proxy.addr(), LONG).unwrap().close().unwrap();
}

#[test]
fn expired_session_is_gone_with_its_nodes() {
    let (proxy, mut client) = bed();
    client.create("/expires", b"", CreateMode::Ephemeral).unwrap();
    let key = client.session().clone();
    assert_eq!(proxy.sessions().last(), Some(&key));
    proxy.expire_session(key.id);
    assert!(!exists("/expires"));
    assert!(client.ping().is_err());
    let resumed = RawClient::resume(&proxy.addr(), &key);
    assert!(matches!(resumed, Err(RawError::Expired)), "{resumed:?}");
}

#[test]
fn session_ends_although_its_client_comes_back_at_once() {
    for round in 0..5 {
        let (proxy, mut client) = bed();
        client.create(&format!("/fights-{round}"), b"", CreateMode::Ephemeral).unwrap();
        let (key, addr) = (client.session().clone(), proxy.addr());
        let fights = std::thread::spawn(move || {
            let id = key.id;
            loop {
                while client.ping().is_ok() {}
                match RawClient::resume(&addr, &key) {
                    Ok(again) => client = again,
                    Err(RawError::Expired) => return id,
                    Err(_) => {}
                }
            }
        });
        proxy.expire_session(proxy.sessions()[0].id);
        assert_eq!(fights.join().unwrap(), proxy.sessions()[0].id);
        assert!(!exists(&format!("/fights-{round}")));
    }
}

#[test]
fn chaos_cuts_until_it_stops() {
    let (proxy, client) = bed();
    let key = client.session().clone();
    let chaos = proxy.chaos(7, Duration::from_millis(10));
    let (mut broken, limit) = (0, Instant::now() + SOON);
    while broken < 20 {
        assert!(Instant::now() < limit, "{broken} cuts in 10 s");
        if let Ok(mut client) = RawClient::resume(&proxy.addr(), &key) {
            while client.ping().is_ok() {}
        }
        broken += 1;
    }
    assert!(chaos.stop() >= 15);
    // A connect that was cut may reach the server late and take the session over once more.
    eventually("a connection lasts", || {
        let resumed = RawClient::resume(&proxy.addr(), &key);
        resumed.is_ok_and(|mut client| (0..50).all(|_| client.ping().is_ok()))
    });
}

#[test]
fn four_letter_words_and_dead_servers_pass() {
    let (proxy, client) = bed();
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");

    let dead = TcpStream::connect(proxy.addr()).map(|s| s.local_addr().unwrap()).unwrap();
    proxy.set_upstream(dead);
    assert!(RawClient::connect(&proxy.addr(), LONG).is_err());
    drop(proxy);
    drop(client);
}
