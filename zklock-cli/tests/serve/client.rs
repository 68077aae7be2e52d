//! A server, and what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::Instant;

use serde_json::Value;

use crate::bed::{BOUND, Bed, until};

/// On a port of its own, with a look ten times a second.
pub(crate) const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--interval", "100ms"];

pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: SocketAddr,
    /// What it says when it begins.
    pub(crate) says: String,
}

/// An answer: its code, its headers in lower case, its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl Server {
    /// Serves the locks of a bed.
    pub(crate) fn of(bed: &Bed, arguments: &[&str]) -> Self {
        Server::run(bed.zklock(&[&SERVE[..], arguments].concat()))
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Server { process, address, says: line }
    }

    pub(crate) fn sent(&self, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            text += &format!("Host: {}\r\n", self.address);
        }
        headers.iter().for_each(|header| text += &format!("{header}\r\n"));
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let headers = [headers, &["Connection: close"]].concat();
        let mut text = String::new();
        self.sent(method, path, &headers, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { code, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// What `zklock why` says about a lock: a server that is busy does not answer in time, and is asked again.
    pub(crate) fn why(&self, name: &str) -> Answer {
        until("why answers", || {
            Some(self.get(&named("/api/why", name))).filter(|answer| answer.code != 503)
        })
    }

    /// The events from now on.
    pub(crate) fn events(&self) -> Events {
        let stream = self.sent("GET", "/api/events", &[], "");
        Events { lines: BufReader::new(stream).lines() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) struct Events {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Events {
    /// The next event of this name for which something is true.
    pub(crate) fn next(&mut self, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let (begin, mut event) = (Instant::now(), String::new());
        loop {
            assert!(begin.elapsed() < BOUND, "no such event {name} within {BOUND:?}");
            let line = self.lines.next().unwrap().unwrap();
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event);
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| event == name) {
                let value = serde_json::from_str(data).unwrap();
                if is(&value) {
                    return value;
                }
            }
        }
    }

    /// The next state in which a lock is like this.
    pub(crate) fn lock(&mut self, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let of = |state: &Value| {
            let mut locks = state["locks"].as_array().unwrap().iter();
            locks.find(|lock| lock["name"] == name).cloned()
        };
        of(&self.next("state", |state| of(state).is_some_and(|lock| is(&lock)))).unwrap()
    }
}

/// A query with a name.
pub(crate) fn named(path: &str, name: &str) -> String {
    let each = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("{path}?name={}", name.bytes().map(each).collect::<String>())
}
