//! A layout of one's own: a bakery, where the nodes are tickets.
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
    // The attempt makes the name unique: a node is found again whose creation was not answered.
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("ticket-{}-", attempt.simple())
    }

    // ZooKeeper appends the number. What is not read is in nobody's way.
    fn parse(&self, name: &str) -> Option<Contender> {
        let ticket = name.strip_prefix("ticket-")?;
        Some(Contender::new(name, Contender::sequence_after(ticket, "-")?, Mode::Mutex))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let bakery = Session::embedded().mutex("bakery")?.driver(Tickets)?;
    let guard = bakery.acquire().await?;
    println!("{} is served", guard.path());
    guard.release().await
}
