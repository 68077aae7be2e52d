//! The floor of a handoff between processes: the commit of a deletion and the word of it to a
//! session that watches. A cycle is a creation, a watch, as long a hold as that of a lock, and a
//! deletion; what counts is the handoff.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zookeeper_client::{Acls, Client, CreateMode};

use super::Side;
use super::bare::{connected, make_directory};
use crate::drive::{Failure, body};
use crate::measured::Measured;
use crate::pool::runtime;

const PREFIX: &str = "/notify/node-";

struct Notify {
    runtime: Runtime,
    holder: Client,
    waiter: Client,
}

impl Notify {
    async fn rounds(&self, time: Duration) -> Result<Measured, Failure> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (mut measured, start) = (Measured::default(), Instant::now());
        while start.elapsed() < time {
            let began = Instant::now();
            let (_, sequence) = self.holder.create(PREFIX, b"", &options).await?;
            let path = format!("{PREFIX}{sequence}");
            let (_, _, watcher) = self.waiter.get_and_watch_data(&path).await?;
            let told = tokio::spawn(async move {
                watcher.changed().await;
                Instant::now()
            });
            body(false).await;
            let released = Instant::now();
            self.holder.delete(&path, None).await?;
            let handoff = told.await?.duration_since(released).as_nanos() as u64;
            measured.handoffs.record(handoff);
            measured.waits.record(handoff);
            measured.cycles.record(began.elapsed().as_nanos() as u64);
        }
        measured.elapsed = start.elapsed();
        Ok(measured)
    }
}

impl Side for Notify {
    fn round(&mut self, time: Duration) -> Result<Measured, Failure> {
        self.runtime.block_on(self.rounds(time))
    }
}

/// Two sessions.
pub(crate) fn side(connect: &str) -> Result<Box<dyn Side>, Failure> {
    let runtime = runtime()?;
    let (holder, waiter) = runtime.block_on(async {
        let (holder, waiter) = (connected(connect).await?, connected(connect).await?);
        make_directory(&holder, "/notify").await?;
        Ok::<_, Failure>((holder, waiter))
    })?;
    Ok(Box::new(Notify { runtime, holder, waiter }))
}
