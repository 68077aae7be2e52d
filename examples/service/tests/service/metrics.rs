//! The metrics of the service, as they are, and as Prometheus reads them.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zklock_test_support::{ZooKeeper, is_long};

use crate::http::{ask, ask_for_text};
use crate::process::{Folder, Service};

fn order(service: SocketAddr) {
    assert_eq!(ask(service, "POST /orders", Some(json!({ "customer": 7 }))).0, 200);
}

#[test]
fn the_service_tells_what_becomes_of_its_locks() {
    let data = Folder::new("metrics");
    let service = Service::start(&data.0, &[]);
    order(service.addr);
    assert_eq!(ask(service.addr, "PUT /accounts/7", Some(json!({ "balance": 1 }))).0, 204);
    let told = |line: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        // Another thread counts, so it may be a moment late.
        while Instant::now() < deadline {
            let (status, text) = ask_for_text(service.addr, "GET /metrics", None);
            assert_eq!(status, 200);
            if text.lines().any(|other| other == line) {
                return;
            }
        }
        panic!("no line {line}");
    };
    told(r#"zklock_acquires_total{pattern="orders/create",mode="mutex",outcome="node"} 1"#);
    told(r#"zklock_acquires_total{pattern="accounts/{account}",mode="write",outcome="node"} 1"#);
    told(r#"zklock_hold_seconds_count{pattern="accounts/{account}",mode="write"} 1"#);
    // The buckets know the lease.
    let lease = zklock::Session::embedded().timing().unwrap().lease.as_secs_f64();
    let bucket = r#"zklock_hold_seconds_bucket{pattern="accounts/{account}",mode="write",le=""#;
    told(&format!("{bucket}{lease}\"}} 1"));
    told(r#"zklock_sessions{state="connected"} 1"#);
    told(r#"zklock_held{pattern="orders/create",mode="mutex"} 0"#);
}

#[test]
fn the_buckets_of_locks_are_not_those_of_other_histograms() {
    let recorder = service::recorder(&zklock::Session::embedded()).unwrap();
    metrics::histogram!("checkout_seconds").record(0.5);
    metrics::histogram!("zklock_hold_seconds").record(0.5);
    let text = recorder.render();
    assert!(
        text.contains("zklock_hold_seconds_bucket{") && !text.contains("checkout_seconds_bucket{")
    );
}

/// A running Prometheus, killed when dropped.
struct Prometheus(Child, SocketAddr);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ops(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops").join(file)
}

fn program(name: &str) -> Command {
    let command = Command::new(name);
    let found = Command::new(name).arg("--version").output().is_ok();
    assert!(found, "there is no {name}: install Debian's package prometheus");
    command
}

impl Prometheus {
    fn start(folder: &Path, service: SocketAddr) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let rules = ops("alerts.yml").canonicalize().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{:?}]\n\
             scrape_configs: [{{ job_name: shop, static_configs: [{{ targets: [{:?}] }}] }}]\n",
            rules.display().to_string(),
            service.to_string(),
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = program("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={addr}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Prometheus(child.unwrap(), addr)
    }

    /// Asks until the answer is as wanted.
    fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut last = Value::Null;
        while Instant::now() < deadline {
            if std::net::TcpStream::connect(self.1).is_ok() {
                last = ask(self.1, &format!("GET {path}"), None).1;
                if is_it(&last["data"]) {
                    return;
                }
            }
            sleep(Duration::from_millis(100));
        }
        panic!("{path}: {last}");
    }
}

/// Tells that something is done, also when it has failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The queries of the board, with its variables filled in as Grafana does it.
fn queries_of_the_board() -> Vec<String> {
    let board = std::fs::read_to_string(ops("grafana.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = |ask: &str| {
        let variables = [("$__rate_interval", "1m"), ("$job", ".*"), ("$pattern", ".*")];
        variables.iter().fold(ask.to_owned(), |ask, (name, value)| ask.replace(name, value))
    };
    targets.map(|target| filled(target["expr"].as_str().unwrap())).collect()
}

/// What the board asks for the values of its variables: the label, and of which series.
fn variables_of_the_board() -> Vec<(String, String)> {
    let board = std::fs::read_to_string(ops("grafana.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let asked = board["templating"]["list"].as_array().unwrap().iter();
    let asked = asked.filter_map(|variable| {
        let query = variable["query"].as_str().or(variable["query"]["query"].as_str())?;
        let (series, label) =
            query.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(", ")?;
        Some((label.to_owned(), series.replace("$job", ".*")))
    });
    asked.collect()
}

/// A text as it is in a query.
fn encoded(text: &str) -> String {
    let each = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}

#[test]
fn prometheus_reads_the_metrics_and_the_rules() {
    if !is_long() {
        return;
    }
    let check = |what: &[&str], file: &str| {
        let out = program("promtool").args(what).arg(ops(file)).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    check(&["check", "rules"], "alerts.yml");
    check(&["test", "rules"], "alerts.test.yml");
    let (server, data) = (ZooKeeper::start(), Folder::new("prometheus"));
    let service = Service::start(&data.0, &["--connect", &server.addr(), "--latency-ms", "2000"]);
    let order = || ask(service.addr, "POST /orders", Some(json!({ "customer": 7 }))).0;
    // A busy machine may be too slow for the first one.
    while order() != 200 {}
    let prometheus = Prometheus::start(&data.0.join("prometheus"), service.addr);
    let is_one = |data: &Value| data["result"][0]["value"][1] == "1";
    let orders = "/api/v1/query?query=zklock_acquires_total{pattern=%22orders/create%22,\
                  outcome=%22node%22,job=%22shop%22}";
    prometheus.until(orders, |data| data["result"][0]["value"][1].is_string());
    prometheus.until("/api/v1/query?query=zklock_sessions{state=%22connected%22}", is_one);
    // Some of what the board asks is there while locks are held, for longer than a heartbeat.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                order();
            }
        });
        // As Grafana does it.
        let variables = variables_of_the_board();
        let labels: Vec<_> = variables.iter().map(|(label, _)| &**label).collect();
        assert_eq!(labels, ["job", "pattern"]);
        for ((label, series), value) in variables.iter().zip(["shop", "orders/create"]) {
            let ask = format!("/api/v1/label/{label}/values?match[]={}", encoded(series));
            prometheus.until(&ask, |data| {
                data.as_array().is_some_and(|values| values.contains(&value.into()))
            });
        }
        for ask in queries_of_the_board() {
            prometheus.until(&format!("/api/v1/query?query={}", encoded(&ask)), |data| {
                data["result"].as_array().is_some_and(|series| !series.is_empty())
            });
        }
    });
    prometheus.until("/api/v1/rules", |data| {
        let rules = data["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        rules.len() >= 5 && rules.iter().all(|rule| rule["health"] == "ok")
    });
}
