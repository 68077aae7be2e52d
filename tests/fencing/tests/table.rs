//! The recipe of docs/fencing.md, against a real table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use rusqlite::{Connection, params};
use zklock::{FencingToken, Session};
use zklock_test_support::{Proxy, ZooKeeper};

const TABLE: &str = "create table account (
    id integer primary key, balance integer not null, fence blob not null, fence_text text not null
)";

/// Answers whether it was written: not by a holder who was overtaken.
const WRITE: &str = "update account set balance = ?1, fence = ?2, fence_text = ?3
    where id = 1 and fence <= ?2 and fence_text <= ?3";

fn write(table: &Connection, balance: i64, token: FencingToken) -> bool {
    let bytes = token.to_bytes();
    table.execute(WRITE, params![balance, &bytes[..], token.to_string()]).unwrap() == 1
}

fn balance(table: &Connection) -> i64 {
    table.query_row("select balance from account where id = 1", [], |row| row.get(0)).unwrap()
}

async fn session(at: &str) -> Session {
    Session::builder(at).session_timeout(Duration::from_secs(4)).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_holder_is_refused_by_the_table() {
    let server = ZooKeeper::start();
    let proxy = Proxy::start(server.socket_addr());
    let table = Connection::open_in_memory().unwrap();
    table.execute(TABLE, []).unwrap();
    let none = FencingToken::new(0, 0);
    let first = params![&none.to_bytes()[..], none.to_string()];
    table.execute("insert into account values (1, 100, ?1, ?2)", first).unwrap();

    let (here, there) = (session(&proxy.addr()).await, session(&server.addr()).await);
    let stale = here.mutex("account/1").unwrap().acquire().await.unwrap();
    let read = balance(&table);
    assert!(write(&table, read + 1, stale.fencing_token()));
    assert!(write(&table, read + 2, stale.fencing_token()), "the same holder writes twice");

    // The holder is cut off, and does not look at its guard.
    proxy.black_hole(true);
    let next = there.mutex("account/1").unwrap().acquire().await.unwrap();
    assert!(!stale.is_valid());
    assert!(next.fencing_token() > stale.fencing_token());
    assert!(write(&table, 200, next.fencing_token()));
    assert!(!write(&table, read + 3, stale.fencing_token()), "overtaken");
    assert_eq!(balance(&table), 200);
    next.release().await.unwrap();

    // A handoff in the process grows it, too.
    let last = there.mutex("account/1").unwrap().acquire().await.unwrap();
    assert!(write(&table, 201, last.fencing_token()));
    assert!(!write(&table, read + 4, stale.fencing_token()));
    assert_eq!(balance(&table), 201);
    last.release().await.unwrap();
    proxy.heal();
    there.close().await;
    here.close().await;
}
