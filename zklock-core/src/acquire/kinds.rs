//! A name that is in use as a lock of another kind, as far as the directory shows it.
//!
//! What is asked here is asked only where a list that was read anyway shows a sign of it.

use std::net::IpAddr;
use std::str::from_utf8;
use std::sync::Arc;

use crate::acquire::acquire_loop::{AcquireLoop, Setback};
use crate::base::error::Holder;
use crate::base::owner::Owner;
use crate::coordinator::traits::RequestError;
use crate::layout::kinds::{Kind, Sign, two_kinds};
use crate::name::path::name_of;
use crate::session::generation::{Generation, Listed};

/// Of so many signs it is asked whether they are what they look like.
const MOST_ASKED: usize = 4;

impl AcquireLoop<'_> {
    /// What the first look at a directory shows of a lock of another kind.
    pub(crate) fn signs(&self, looked: &Listed) -> Vec<(String, Sign)> {
        if self.kind_checked.set(()).is_err() {
            return Vec::new();
        }
        let (driver, mode) = (&self.target.driver, self.how.mode);
        let contenders = looked.queue.iter().map(|contender| &contender.name);
        let signs = looked.others.iter().chain(contenders).filter_map(|name| {
            driver.sign_of_another_kind(name, mode).map(|sign| (name.clone(), sign))
        });
        signs.take(MOST_ASKED).collect()
    }

    /// Sees to it that nobody uses the name as a lock of another kind. Signs whose facts say otherwise
    /// are passed by: a semaphore that is not used, the directory of another lock.
    pub(crate) async fn check_kind(
        &self,
        generation: &Arc<Generation>,
        signs: Vec<(String, Sign)>,
    ) -> Result<(), Setback> {
        for (name, sign) in signs {
            let user = match self.user_of_another_kind(generation, &name, sign).await {
                Ok(user) => user,
                Err(RequestError::NoNode) => None,
                Err(error) => {
                    self.after(generation, error).await?;
                    None
                }
            };
            if let Some((path, kind, owner)) = user {
                let who = format!("{path} is of {owner}");
                let holder = Holder { owner, node: name_of(&path).to_owned(), ahead: 1 };
                let error = two_kinds(kind, Kind::of(self.how.mode)).aside(who);
                return Err(Setback::Failed(error.held_by(Some(holder))));
            }
        }
        Ok(())
    }

    /// The path of a node that shows the name in use as another kind, and who made it.
    async fn user_of_another_kind(
        &self,
        generation: &Arc<Generation>,
        name: &str,
        sign: Sign,
    ) -> Result<Option<(String, Kind, Owner)>, RequestError> {
        let (coordinator, path) = (generation.coordinator(), self.path_of(name));
        let path = match sign {
            Sign::Directory { node, .. } => {
                let children = coordinator.children(&path).await?;
                match children.iter().find(|child| node(child)) {
                    Some(child) => format!("{path}/{child}"),
                    None => return Ok(None),
                }
            }
            Sign::Node(_) | Sign::NodeOfCurator(_) => path,
        };
        let (data, stat) = coordinator.get(&path).await?;
        let is_so = match sign {
            Sign::NodeOfCurator(_) => from_utf8(&data).is_ok_and(|ip| ip.parse::<IpAddr>().is_ok()),
            Sign::Directory { .. } | Sign::Node(_) => true,
        };
        // What is no ephemeral node may be the directory of another lock.
        let is_so = is_so && stat.owner != 0;
        Ok(is_so.then(|| (path, sign.kind(), Owner::from_payload(&data))))
    }
}
