//! A custom layout: a bakery, whose nodes are tickets.
//!
//! ```text
//! $ cargo run --example driver
//! /zklock/bakery/ticket-5d8c…-0000000000 is served
//! ```

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::{LockError, Mode, Session};

#[derive(Debug)]
struct Tickets;

impl LockDriver for Tickets {
    // The attempt makes the name unique, so that a node is found again if the reply to its creation
    // is lost.
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("ticket-{}-", attempt.simple())
    }

    // ZooKeeper appends the number. Nobody waits for nodes whose name is not parsed.
    fn parse(&self, name: &str) -> Option<Contender> {
        let ticket = name.strip_prefix("ticket-")?;
        Some(Contender::new(name, Contender::sequence_after(ticket, "-")?, Mode::Mutex))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let bakery = Session::embedded().mutex("bakery")?.with_driver(Tickets);
    let guard = bakery.acquire().await?;
    println!("{} is served", guard.node_path());
    guard.release().await
}
