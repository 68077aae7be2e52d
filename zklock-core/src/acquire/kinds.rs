//! A name that is in use as a lock of another kind, as far as the directory shows it.
//!
//! What is asked here is asked only where a list that was read anyway shows a sign of it.

use std::slice::from_ref;
use std::sync::Arc;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::setback::Setback;
use crate::base::error::Holder;
use crate::base::owner::Owner;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::divergence::check::phantom_among;
use crate::layout::kinds::{Kind, Sign, two_kinds};
use crate::layout::shipped::lock_beside_permits;
use crate::name::path::{ZnodePath, name_of};
use crate::session::generation::{Generation, Listed};

/// How many misleading signs that stay are passed by. Nodes that are gone, or may not be read, do not count:
/// a user of the name may be behind them in the list.
const MOST_ASKED: usize = 4;

/// How often to look again for who uses a name, if the one that was seen is gone.
const MOST_LOOKS: usize = 4;

/// The children of a directory that is used by semaphores only.
const OF_SEMAPHORES: i32 = 2;

/// How many nodes of a semaphore are read at most, one after the other.
const MOST_READ: usize = 1000;

/// A directory of a semaphore with more children, which are other locks, is not listed.
const MOST_LISTED: i32 = 1000;

/// What was asked of a node already.
type Asked = Option<Reply<(Vec<u8>, Stat)>>;

impl AcquireLoop<'_> {
    /// What a look at a directory shows of a lock of another kind.
    pub(crate) fn signs(&self, looked: &Listed) -> Vec<(String, Sign)> {
        if self.target.beside.is_some() {
            return Vec::new();
        }
        let contenders = looked.queue.iter().map(|contender| &contender.name);
        self.signs_among(looked.others.iter().chain(contenders))
    }

    fn signs_among<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<(String, Sign)> {
        let (target, mode) = (self.target, self.request.mode);
        let sign = |name: &str| match &target.permits {
            Some(permits) => lock_beside_permits(name, &permits.layout),
            None => target.driver.sign_of_another_kind(name, mode),
        };
        let signs = names.filter_map(|name| Some((name.clone(), sign(name)?)));
        signs.collect()
    }

    /// Makes sure that nobody uses the name as a lock of another kind, whose nodes are in another
    /// directory; with the answer of a read of that directory.
    pub(crate) async fn check_beside(
        &self,
        generation: &Arc<Generation>,
        mut answer: Result<(Vec<u8>, Stat), RequestError>,
    ) -> Result<(), Setback> {
        let Some(beside) = &self.target.beside else { return Ok(()) };
        loop {
            let listed = match answer {
                Ok((_, stat)) if (OF_SEMAPHORES + 1..=MOST_LISTED).contains(&stat.num_children) => {
                    generation.coordinator().children(beside.as_str()).await
                }
                Ok(_) => return Ok(()),
                Err(error) => Err(error),
            };
            match listed {
                Ok(names) => {
                    return self.check_kind(generation, self.signs_among(names.iter())).await;
                }
                Err(error) if error.is_definite() => return Ok(()),
                Err(error) => self.after(generation, error).await?,
            }
            answer = generation.coordinator().get(beside.as_str()).await;
        }
    }

    /// Makes sure that nobody uses the name as a lock of another kind. Signs whose facts say otherwise
    /// are passed by: a semaphore that is not used, the directory of another lock.
    pub(crate) async fn check_kind(
        &self,
        generation: &Arc<Generation>,
        signs: Vec<(String, Sign)>,
    ) -> Result<(), Setback> {
        let mut left = MOST_ASKED;
        // All at once: the lock is not granted before the last answer.
        let asked = signs.iter().take(MOST_ASKED).map(|(name, sign)| match sign {
            Sign::Directory { .. } => None,
            Sign::Node(_) | Sign::NodeOfCurator(_) => {
                Some(generation.coordinator().get(self.beside(name).as_str()))
            }
        });
        let mut asked = asked.collect::<Vec<_>>().into_iter();
        for (name, sign) in signs {
            if left == 0 {
                break;
            }
            let mut asked = asked.next().flatten();
            let mut looks = 0;
            let user = loop {
                looks += 1;
                // Each look passes by the same ones again.
                let mut rest = left;
                let error = match self
                    .user_of_another_kind(generation, (&name, sign, asked.take()), &mut rest)
                    .await
                {
                    // A node that only this server shows uses nothing.
                    Ok(Some(user)) => match phantom_among(generation, from_ref(&user.0)).await {
                        // The server is as new as its leader now: what it shows still is so.
                        Ok(None) => match generation.coordinator().get(user.0.as_str()).await {
                            Ok(_) => break Some(user),
                            // Others may have come; and who finds another one each time finds it in use.
                            Err(RequestError::NoNode) if looks < MOST_LOOKS => continue,
                            Err(RequestError::NoNode) => break Some(user),
                            Err(error) => error,
                        },
                        Ok(Some(phantom)) => {
                            generation.leave(phantom, &self.target.of_lock(self.request.mode));
                            return Err(Setback::Interrupted);
                        }
                        Err(error) => error,
                    },
                    Ok(None) => {
                        left = rest;
                        break None;
                    }
                    Err(error) => error,
                };
                // It is gone, or not for this client to read.
                if error.is_definite() {
                    break None;
                }
                self.after(generation, error).await?;
            };
            if let Some((path, kind, owner)) = user {
                let who = format!("{path} is of {owner}");
                let holder = Holder { owner, node: name_of(&path).to_owned(), ahead: 1 };
                let error = two_kinds(kind, Kind::of(self.request.mode)).aside(who);
                return Err(Setback::Failed(error.held_by(Some(holder))));
            }
        }
        Ok(())
    }

    /// A child of the directory in which others may use the name.
    fn beside(&self, name: &str) -> ZnodePath {
        self.target.beside.as_ref().unwrap_or(&self.target.directory).join(name)
    }

    /// The path of a node that shows the name in use as another kind, and who made it. Counts the `rest` of the
    /// nodes that may be passed by down.
    async fn user_of_another_kind(
        &self,
        generation: &Arc<Generation>,
        (name, sign, mut asked): (&str, Sign, Asked),
        rest: &mut usize,
    ) -> Result<Option<(String, Kind, Owner)>, RequestError> {
        let coordinator = generation.coordinator();
        let path = self.beside(name);
        let paths = match sign {
            Sign::Directory { node, .. } => {
                let children = coordinator.children(path.as_str()).await?;
                let nodes = children.iter().filter(|child| node(child)).take(MOST_READ);
                nodes.map(|child| path.join(child)).collect()
            }
            Sign::Node(_) | Sign::NodeOfCurator(_) => vec![path],
        };
        for path in paths {
            let reply = asked.take().unwrap_or_else(|| coordinator.get(path.as_str()));
            let is_passed_by = match reply.await {
                Err(error) if error.is_definite() && !error.ends_session() => false,
                Err(error) => return Err(error),
                // What is no ephemeral node may be the directory of another lock. What this process holds
                // or waits for it knows itself; other nodes of it are about to be deleted.
                Ok((data, stat)) => {
                    let is_none = !sign.agrees_with(&data) || stat.ephemeral_owner == 0;
                    if !is_none && !self.lane_permit.lane().is_of_this_process(stat.ephemeral_owner)
                    {
                        let owner = Owner::from_payload(&data);
                        return Ok(Some((path.to_string(), sign.kind(), owner)));
                    }
                    is_none
                }
            };
            *rest = rest.saturating_sub(usize::from(is_passed_by));
            if *rest == 0 {
                break;
            }
        }
        Ok(None)
    }
}
