//! The metrics of the service, as they are, and as Prometheus reads them.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
    told(r#"zklock_sessions{state="connected"} 1"#);
    told(r#"zklock_held{pattern="orders/create",mode="mutex"} 0"#);
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

#[test]
fn prometheus_reads_the_metrics_and_the_rules() {
    if std::env::var_os("ZKLOCK_LONG").is_none() {
        return;
    }
    let check = |what: &[&str], file: &str| {
        let out = program("promtool").args(what).arg(ops(file)).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    check(&["check", "rules"], "alerts.yml");
    check(&["test", "rules"], "alerts.test.yml");
    let data = Folder::new("prometheus");
    let service = Service::start(&data.0, &[]);
    order(service.addr);
    let prometheus = Prometheus::start(&data.0.join("prometheus"), service.addr);
    let is_one = |data: &Value| data["result"][0]["value"][1] == "1";
    let orders = "/api/v1/query?query=zklock_acquires_total{pattern=%22orders/create%22,\
                  outcome=%22node%22,job=%22shop%22}";
    prometheus.until(orders, is_one);
    prometheus.until("/api/v1/query?query=zklock_sessions{state=%22connected%22}", is_one);
    prometheus.until("/api/v1/rules", |data| {
        let rules = data["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        rules.len() >= 5 && rules.iter().all(|rule| rule["health"] == "ok")
    });
}
