//! Two services on one ZooKeeper and the same data.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;

use serde_json::{Value, json};
use zklock::Session;
use zklock_test_support::ZooKeeper;

use crate::http::{ask, ask_for_text, insist};
use crate::process::{Folder, Service};

/// What each of so many clients does, all at the same time, every other at the other service.
fn all_at_once<T: Send>(
    clients: u64,
    services: &[Service; 2],
    act: impl Fn(u64, SocketAddr) -> T + Sync,
) -> Vec<T> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|client| {
                let (act, service) = (&act, services[client as usize % 2].addr);
                scope.spawn(move || act(client, service))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

fn balance(service: SocketAddr, one: u64, other: u64) -> u64 {
    let (status, report) = insist(service, &format!("GET /reports/{one}/{other}"), None);
    assert_eq!(status, 200, "{report}");
    report["total"].as_u64().unwrap()
}

fn open_accounts(service: SocketAddr) {
    for account in 1..=4 {
        let put = format!("PUT /accounts/{account}");
        assert_eq!(insist(service, &put, Some(json!({ "balance": 1000 }))).0, 204);
    }
}

/// The four kinds of request in turn. Money goes round in the pairs 1, 2 and 3, 4.
fn request(client: u64, service: SocketAddr) -> Option<(&'static str, Value)> {
    let pair = if client % 8 < 4 { [1, 2] } else { [3, 4] };
    match client % 4 {
        0 => {
            let (status, order) = insist(service, "POST /orders", Some(json!({ "customer": 7 })));
            assert_eq!(status, 200, "{order}");
            Some(("order", order["number"].clone()))
        }
        1 => {
            let [from, to] = if client % 16 < 8 { pair } else { [pair[1], pair[0]] };
            let transfer = json!({ "from": from, "to": to, "amount": 1 + client % 5 });
            let (status, answer) = insist(service, "POST /transfers", Some(transfer));
            assert_eq!(status, 204, "{answer}");
            None
        }
        2 => {
            // Never in the middle of a transfer, as long as there are some.
            for _ in 0..5 {
                assert_eq!(balance(service, pair[0], pair[1]), 2000);
            }
            None
        }
        _ => {
            let (status, job) = insist(service, "POST /jobs/20240501", None);
            assert_eq!(status, 200, "{job}");
            Some(("job", job["ran"].clone()))
        }
    }
}

#[test]
fn money_and_order_numbers_add_up_over_two_hundred_requests_at_two_services() {
    let (server, data) = (ZooKeeper::start(), Folder::new("fleet"));
    let start = || Service::start(&data.0, &["--connect", &server.addr()]);
    let services = [start(), start()];
    open_accounts(services[0].addr);

    let answers = all_at_once(200, &services, request);
    let of = |kind| answers.iter().flatten().filter(move |(of, _)| *of == kind);
    let numbers: BTreeSet<u64> = of("order").filter_map(|(_, number)| number.as_u64()).collect();
    assert_eq!(numbers, (1..=50).collect());
    assert_eq!(of("job").filter(|(_, ran)| *ran == true).count(), 1);
    for (one, other) in [(1, 2), (3, 4)] {
        assert_eq!(balance(services[1].addr, one, other), 2000);
    }
    for service in services {
        assert!(service.stop().success());
    }
    // Nothing is left in any queue.
    assert!(server.sessions().iter().all(|session| session.ephemerals.is_empty()));
}

#[tokio::test]
async fn a_lock_that_another_process_holds_is_409_and_a_dead_server_503() {
    let (server, data) = (ZooKeeper::start(), Folder::new("failures"));
    let service = Service::start(&data.0, &["--connect", &server.addr()]);
    let order = || ask(service.addr, "POST /orders", Some(json!({ "customer": 7 })));

    let session = Session::connect(&server.addr()).await.unwrap();
    let held = session.mutex("orders/create").unwrap().acquire().await.unwrap();
    let (status, answer) = order();
    assert_eq!((status, &answer["code"]), (409, &json!("1011")), "{answer}");
    held.release().await.unwrap();
    assert_eq!(order().0, 200);

    server.kill();
    let (status, answer) = order();
    assert_eq!(status, 503, "{answer}");
    assert_ne!(answer["code"], "1011");
}

#[test]
fn without_a_server_it_runs_on_the_embedded_coordinator() {
    let data = Folder::new("embedded");
    let service = Service::start(&data.0, &[]);
    open_accounts(service.addr);
    for client in 0..8 {
        request(client, service.addr);
    }
    let (status, answer) = ask(service.addr, "GET /reports/1/9", None);
    assert_eq!((status, &answer["code"]), (404, &json!("account")));
    let much = json!({ "from": 1, "to": 2, "amount": 9999 });
    assert_eq!(ask(service.addr, "POST /transfers", Some(much)).0, 422);
    let to_itself = json!({ "from": 1, "to": 1, "amount": 10 });
    assert_eq!(ask(service.addr, "POST /transfers", Some(to_itself)).0, 204);
    assert_eq!(balance(service.addr, 1, 2), 2000);
    assert!(service.stop().success());
}

#[test]
fn a_service_that_is_stopped_turns_away_who_waits_and_lets_holders_finish() {
    let data = Folder::new("stopped");
    let service = Service::start(&data.0, &["--latency-ms", "3000"]);
    let addr = service.addr;
    let answers = thread::scope(|scope| {
        let order = || ask(addr, "POST /orders", Some(json!({ "customer": 7 })));
        let orders = [scope.spawn(order), scope.spawn(order)];
        let waiting = "zklock_waiting{pattern=\"orders/create\",mode=\"mutex\"} 1";
        while !ask_for_text(addr, "GET /metrics", None).1.contains(waiting) {
            thread::yield_now();
        }
        assert!(service.stop().success());
        orders.map(|order| order.join().unwrap())
    });
    let mut codes = answers.map(|(status, answer)| (status, answer["code"].clone()));
    codes.sort_by_key(|(status, _)| *status);
    assert_eq!(codes, [(200, Value::Null), (503, json!("1014"))]);
}
