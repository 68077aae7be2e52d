//! Queues that are too long for one look.

use std::time::Duration;

use zklock_test_support::{Action, CreateMode, Matcher, OpCode, Proxy, ZooKeeper};

use crate::bed::{Bed, CURATORS, make, raw, until};

/// Makes a queue of so many, which stay also where this machine is slow.
fn queue(bed: &Bed, length: usize) {
    let (mut client, node) = (raw(), CURATORS.trim_end_matches('0'));
    make(&mut client, &bed.path("a"), b"", CreateMode::Persistent);
    for _ in 0..length {
        let path = bed.path(&format!("a/{node}"));
        client.create(&path, b"10.0.0.7", CreateMode::PersistentSequential).unwrap();
    }
    client.close().unwrap();
}

/// What is printed by a command that may look for a second at a time, and must not fail.
fn printed(bed: &Bed, servers: &str, arguments: &[&str]) -> String {
    // On a busy machine a second may be too short.
    until("an answer", || {
        let mut command = bed.zklock_at(servers, arguments);
        command.env("ZKLOCK_TIMEOUT", "1s").env("ZKLOCK_RETRIES", "1");
        let output = command.output().unwrap();
        println!("{arguments:?}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    })
}

#[test]
fn the_holder_of_a_queue_that_is_too_long_to_be_read_is_asked_to_release() {
    let bed = Bed::new("long-revoke");
    queue(&bed, 250);
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    // The numbers from 100 to 199.
    let _silent = proxy.on(Matcher::request(OpCode::GetData).path("-lock-00000001"), Action::Drop);
    let said = printed(&bed, &proxy.addr(), &["revoke", "a"]);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("holds mutex     10.0.0.7, "), "{said}");
    assert_eq!(lines[1], "asked the holder of a to release it");
    let mut client = raw();
    assert_eq!(client.data(&bed.path(&format!("a/{CURATORS}"))).unwrap(), b"__REVOKE__");
    client.close().unwrap();
}

/// To read all of it takes longer than a look may.
#[test]
fn a_long_queue_of_a_server_far_away_is_shown() {
    const LENGTH: usize = 1_500;
    let bed = Bed::new("long-show");
    queue(&bed, LENGTH);
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    proxy.delay(Duration::from_millis(50));
    for arguments in [["show", "a", "--json"], ["ls", "a", "--json"]] {
        let told = printed(&bed, &proxy.addr(), &arguments);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let length = match arguments[0] {
            "show" => told["queues"][0]["contenders"].as_array().unwrap().len(),
            _ => usize::try_from(1 + told["locks"][0]["waiting"].as_u64().unwrap()).unwrap(),
        };
        assert_eq!(length, LENGTH);
    }
}
