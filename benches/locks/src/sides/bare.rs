//! The requests of an uncontended lock and nothing else, on the client that zklock uses: the floor
//! of what a lock on ZooKeeper costs. It excludes nobody.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::Side;
use crate::drive::{Failure, Lock};
use crate::pool::{Pool, runtime};
use crate::workload::Shape;

/// What is asked beside the creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Nothing,
    /// The read that decides, sent right behind the creation.
    List,
}

struct Requests {
    client: Client,
    directory: String,
    prefix: String,
    ask: Ask,
}

impl Lock for Requests {
    type Held = String;

    async fn acquire(&mut self) -> Result<String, Failure> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        // The client sends when it is called, not when it is polled.
        let creating = self.client.create(&self.prefix, PAYLOAD, &options);
        let listing = (self.ask == Ask::List).then(|| self.client.list_children(&self.directory));
        let (_, sequence) = creating.await?;
        if let Some(listing) = listing {
            listing.await?;
        }
        Ok(format!("{}{sequence}", self.prefix))
    }

    async fn release(&mut self, held: String) -> Result<(), Failure> {
        Ok(self.client.delete(&held, None).await?)
    }
}

/// About as long as what a lock writes about its owner.
const PAYLOAD: &[u8] = &[b'x'; 96];

/// A name as long as a lock's.
const NAME: &str = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";

/// Connects with the timeout that all sides have.
pub(crate) async fn connected(connect: &str) -> Result<Client, Failure> {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
    Ok(connector.connect(connect).await?)
}

/// Makes the nodes on the way to a path.
pub(crate) async fn make_directory(client: &Client, path: &str) -> Result<(), Failure> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for (end, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
        match client.create(&path[..end], b"", &options).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The bare requests by as many tasks, which are spread over so many connections of each session.
pub(crate) fn side(
    connect: &str,
    shape: Shape,
    ask: Ask,
    connections: usize,
) -> Result<Box<dyn Side>, Failure> {
    let runtime = runtime()?;
    let tasks = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..shape.sessions {
            let mut clients = Vec::new();
            for _ in 0..connections {
                clients.push(connected(connect).await?);
            }
            for task in 0..shape.tasks {
                let client = &clients[task % connections];
                let directory = format!("/bare/{ask:?}-{}", task % shape.locks);
                make_directory(client, &directory).await?;
                let prefix = format!("{directory}/{NAME}");
                tasks.push(Requests { client: client.clone(), directory, prefix, ask });
            }
        }
        Ok::<_, Failure>(tasks)
    })?;
    Ok(Pool::<Requests>::side(runtime, shape, tasks))
}
