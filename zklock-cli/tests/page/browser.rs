//! A browser without a window, by the few commands of the WebDriver protocol that are needed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::bed::{BOUND, until};

/// Nothing is fetched or sent but what the page asks for.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

pub(crate) struct Browser {
    driver: Child,
    address: String,
    session: String,
    folder: PathBuf,
}

impl Browser {
    /// Starts a browser that has seen nothing yet.
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("zklock-page-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("chromedriver");
        // A group of its own, to which the browser belongs too.
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut driver = command.spawn().unwrap_or_else(|error| {
            panic!(
                "chromedriver: {error}; install it with: apt-get install chromium chromium-driver"
            )
        });
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.by_ref().find_map(|line| {
            let line = line.ok()?;
            let port = line.split("started successfully on port ").nth(1)?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // What it prints later is read, lest it waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        let address = format!("127.0.0.1:{}", port.expect("a port of chromedriver"));
        let mut browser = Browser { driver, address, session: String::new(), folder };
        let profile = format!("--user-data-dir={}", browser.folder.display());
        let arguments: Vec<_> = ARGUMENTS.iter().copied().chain([&*profile]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.call("POST", "/session", &wanted).unwrap();
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close", self.address);
        let length = body.len();
        write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        // The driver keeps the connection, whatever it is told.
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "{method} {path}: {head}");
        }
        let of_length = |line: &str| Some(line.strip_prefix("content-length:")?.trim().to_owned());
        let length = head.to_lowercase().lines().find_map(of_length).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let mut value = serde_json::from_str::<Value>(&body).unwrap();
        match head.starts_with("HTTP/1.1 200") {
            true => Ok(value["value"].take()),
            false => Err(format!("{method} {path}: {body}")),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body).unwrap()
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs a script in the page, and returns what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The text of the first element that a selector finds, as it is seen.
    pub(crate) fn text(&self, selector: &str) -> String {
        // Parts of a drawing have no `innerText`.
        let found = format!("const found = document.querySelector({selector:?});");
        let script = format!("{found} return found?.innerText ?? found?.textContent ?? ''");
        self.run(&script).as_str().unwrap().to_owned()
    }

    /// How many elements a selector finds.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.run(&format!("return document.querySelectorAll({selector:?}).length"))
            .as_u64()
            .unwrap()
    }

    /// Waits until the text of an element is like this.
    pub(crate) fn shows(&self, selector: &str, is: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(&format!("the text of {selector}"), || {
                last = self.text(selector);
                is(&last).then(|| last.clone())
            })
        }));
        shown.unwrap_or_else(|_| {
            let (page, told) = (self.text("body"), self.complaints());
            panic!("{selector} shows {last:?}; {told:?}; the page:\n{page}")
        })
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Clicks where the element is seen, as a person does.
    pub(crate) fn click(&self, selector: &str) {
        // What is drawn anew between the two calls is looked for again.
        until(&format!("a click on {selector}"), || {
            let path = format!("{}/element/{}/click", self.session, self.element(selector));
            match self.call("POST", &path, &json!({})) {
                Err(why) if why.contains("stale element") => None,
                clicked => Some(clicked.unwrap()),
            }
        });
    }

    pub(crate) fn types(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({ "text": text }));
    }

    /// What the page has told since it was asked last: errors, and what the policy refused.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let told = self.post("/se/log", &json!({ "type": "browser" }));
        let told = told.as_array().unwrap().iter();
        told.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.driver.id().try_into().unwrap()), Signal::SIGKILL);
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
