//! The lock that comes with the client crate. Its release cannot be awaited.

use zookeeper_client::{Acls, Client, LockOptions, LockPrefix, OwnedLockClient};

use super::Side;
use super::bare::{connected, make_directory};
use crate::drive::{Failure, Lock};
use crate::pool::{Pool, runtime};
use crate::workload::Shape;

struct Task {
    client: Client,
    directory: String,
}

impl Lock for Task {
    type Held = OwnedLockClient;

    async fn acquire(&mut self) -> Result<OwnedLockClient, Failure> {
        let prefix = LockPrefix::new_curator(&self.directory, "lock-")?;
        let options = LockOptions::new(Acls::anyone_all());
        Ok(self.client.lock(prefix, b"bench", options).await?.into_owned())
    }

    async fn release(&mut self, held: OwnedLockClient) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// As many clients as sessions.
pub(crate) fn side(connect: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let runtime = runtime()?;
    let tasks = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..shape.sessions {
            let client = connected(connect).await?;
            for task in 0..shape.tasks {
                let directory = format!("/client-lock/{}", task % shape.locks);
                make_directory(&client, &directory).await?;
                tasks.push(Task { client: client.clone(), directory });
            }
        }
        Ok::<_, Failure>(tasks)
    })?;
    Ok(Pool::<Task>::side(runtime, shape, tasks))
}
