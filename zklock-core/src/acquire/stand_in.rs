//! The node of a writer that is downgraded to a reader.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;

use crate::acquire::granting::is_there;
use crate::acquire::lease::{Lease, QueuedNode};
use crate::acquire::target::Target;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::policy::pause_after;
use crate::coordinator::link::Link;
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::layout::new_node::Proof;
use crate::session::releaser::{DeleteOptions, Deletion, Doomed, Which, more, or_forgotten};
use crate::session::runtime::Runtime;

/// Creates a reader's node beside that of a writer that holds the lock, with the same number, and
/// grants it. `None` if the writer's lease is lost before.
///
/// Somebody else may have deleted the writer's node, and another writer may be inside since then, who
/// was there before the reader's node. No heartbeat would ever tell: so what is granted is checked
/// once, by a commit behind the creation.
///
/// # Errors
///
/// [`ErrorKind::Unauthorized`] if the server refuses to create the node, or to read it, or to check the writer's;
/// [`ErrorKind::InvalidName`] if something else has its name.
pub async fn stand_in(
    target: &Target,
    runtime: &Runtime,
    (writer, label): (&Lease, Option<&Arc<str>>),
) -> Result<Option<Lease>, LockError> {
    let (generation, driver) = (writer.generation(), &target.driver);
    let Some(number) = driver.parse(writer.node_name()) else { return Ok(None) };
    let owner = runtime.owner(target.app.as_deref()).linger(writer.lingers());
    let label = label.filter(|_| driver.proof() == Proof::Name);
    let owner = owner.label(label.map(|label| &**label));
    let new = driver.node(&runtime.attempt(), Mode::Read, &owner);
    let path = format!("{}/{}{:010}", target.directory.as_str(), new.prefix, number.sequence);
    // The search for a node in doubt must not find this one.
    let recurs = new.proof != Proof::Name;
    let mut turn = None;
    if recurs {
        let gate = generation.gate(target.directory.as_str());
        let lost = async {
            writer.lost().await;
            None
        };
        turn = or(async { Some(gate.lock_owned().await) }, lost).await;
        if turn.is_none() {
            return Ok(None);
        }
    }
    // All nodes that others have made in this session, there or elsewhere, have a smaller czxid.
    let before = generation.newest();
    // What it may have created: others can have the name later.
    let mut in_doubt = None;
    // Whether an attempt was not answered.
    let mut unanswered = false;
    let mut patience = generation.patience();
    let delete = |which| {
        let options = DeleteOptions { only: recurs.then_some(which), directory: false };
        let doomed = Doomed { options, turn, ..Doomed::new(path.as_str()) };
        drop(Deletion::send(generation, doomed));
    };
    loop {
        if !writer.is_valid() {
            if let Some(which) = in_doubt {
                delete(which);
            }
            return Ok(None);
        }
        // As in the queue: what is sent now would be made after the reconnect, perhaps when the writer's
        // node is gone.
        let coordinator = generation.coordinator();
        if coordinator.link() == Link::Down {
            let up = async {
                coordinator.link_changed(Link::Down).await;
            };
            or(up, writer.lost()).await;
            continue;
        }
        let created = generation.create(&path, &new.payload, NodeKind::Ephemeral);
        let checked = is_there(generation, writer.path().clone(), writer.only());
        // A request for the release of the writer that came just before counts for the reader.
        let read = coordinator.get(writer.path());
        let look = || until_lost(writer, patience, coordinator.get(&path));
        let made = match until_lost(writer, patience, created).await {
            Ok(created) => Ok(created.stat.czxid),
            // Created by an attempt that was not answered.
            Err(RequestError::NodeExists) => match look().await {
                Ok((_, stat)) if Which::Newer(before).is(&stat, generation) => {
                    generation.made(stat.czxid);
                    Ok(stat.czxid)
                }
                Ok((_, stat)) => {
                    // What an earlier attempt created is not there any more.
                    in_doubt = None;
                    let stands = is_there(generation, writer.path().clone(), writer.only());
                    match until_lost(writer, patience, stands).await {
                        // An earlier attempt was another session's: the server silently replaced this one, and
                        // deletes the writer's node.
                        Ok(true) if unanswered && stat.ephemeral_owner != 0 => {
                            generation.end();
                            return Ok(None);
                        }
                        Ok(true) => return Err(taken(&path).on(target.lock.clone())),
                        // Somebody deleted it, and the reader's name is another's by now.
                        Ok(false) => {
                            writer.node_is_gone();
                            return Ok(None);
                        }
                        Err(error) => Err(error),
                    }
                }
                // Somebody deleted the node.
                Err(RequestError::NoNode) => continue,
                Err(error) => Err(error),
            },
            // Somebody deleted the directory, and with it the writer's node.
            Err(RequestError::NoNode) => {
                writer.node_is_gone();
                return Ok(None);
            }
            Err(error) => {
                if !error.is_definite() {
                    (in_doubt, unanswered) = (Some(Which::Newer(before)), true);
                }
                Err(error)
            }
        };
        let made = match made {
            Ok(czxid) => {
                in_doubt = Some(Which::Czxid(czxid));
                until_lost(writer, patience, checked).await.map(|stands| (czxid, stands))
            }
            Err(error) => Err(error),
        };
        let made = match made {
            Ok((czxid, true)) => {
                if let Ok((data, stat)) = until_lost(writer, patience, read).await {
                    writer.was_read(&data, &stat);
                }
                czxid
            }
            Ok((_, false)) => {
                writer.node_is_gone();
                continue;
            }
            Err(error) if error.is_definite() => {
                if let Some(which) = in_doubt {
                    delete(which);
                }
                let why = "the server refused to create the reader's node or to check the writer's";
                return Err(LockError::new(ErrorKind::Unauthorized, why)
                    .because(error)
                    .on(target.lock.clone()));
            }
            Err(_) => {
                patience = more(generation, patience);
                generation.pause(pause_after(3)).await;
                continue;
            }
        };
        let only = recurs.then_some(Which::Czxid(made));
        let delete_options = DeleteOptions { only, directory: false };
        let (path, payload) = (path.as_str().into(), new.payload.as_slice().into());
        let node = QueuedNode::new(generation.clone(), path, made, payload, delete_options);
        let node = node.lingering(writer.lingers());
        match node.succeed(target.of_lock(Mode::Read), writer) {
            // The session may have been suspect meanwhile.
            Ok(lease) => return Ok(writer.is_valid().then_some(lease)),
            // The writer's lease is over for good, and the next round deletes the node.
            Err(node) => node.forget(),
        }
    }
}

/// The error of a name that is that of something else.
fn taken(path: &str) -> LockError {
    let why = "the name that the reader's node must have is that of another node, such as the \
               directory of another lock; delete that one, or use other names";
    LockError::new(ErrorKind::InvalidName, why).aside(path)
}

/// Waits for a reply for the given time, and no longer than the writer holds the lock. Without a reply, it may
/// have been lost.
async fn until_lost<T>(
    writer: &Lease,
    patience: Duration,
    reply: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let lost = async {
        writer.lost().await;
        Err(RequestError::ConnectionLoss)
    };
    or(or_forgotten(writer.generation(), patience, reply), lost).await
}
