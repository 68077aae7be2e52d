//! A client of few words.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks once: the status, and what was said (null if nothing).
pub(crate) fn ask(service: SocketAddr, what: &str, body: Option<Value>) -> (u16, Value) {
    let (status, body) = ask_for_text(service, what, body);
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// The same, as text.
pub(crate) fn ask_for_text(service: SocketAddr, what: &str, body: Option<Value>) -> (u16, String) {
    let mut stream = TcpStream::connect(service).unwrap();
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{what} HTTP/1.0\r\nhost: service\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Asks until the lock is not busy: what a client does that is told 409. On a busy machine ZooKeeper
/// may not have answered in time, after which nothing was done either.
pub(crate) fn insist(service: SocketAddr, what: &str, body: Option<Value>) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        let (status, answer) = ask(service, what, body.clone());
        let late = status == 503 && answer["code"] == "1013" && begun.elapsed() < PATIENCE;
        if status != 409 && !late {
            return (status, answer);
        }
        assert!(late || answer["code"] == "1011", "{answer}");
    }
}
