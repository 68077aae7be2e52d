//! Creating a node in the queue, and its directory if it is missing.

use std::future::pending;
use std::sync::Arc;

use futures_lite::future::{or, poll_once};

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::lease::QueuedNode;
use crate::acquire::making::{Made, make, no_chroot};
use crate::acquire::send_order::SendTurn;
use crate::acquire::setback::{Setback, setback};
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::owner::Owner;
use crate::cooldown::mark::Mark;
use crate::cooldown::release_mark::ReleaseMark;
use crate::cooldown::server_time::ServerTime;
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::layout::contender::{Contender, LAST_SAFE_SEQUENCE};
use crate::layout::new_node::Proof;
use crate::layout::refusals::{unmarked, unread, unsupported};
use crate::session::generation::{Generation, Listed};
use crate::session::own_watch::LinkLost;
use crate::session::releaser::{DeleteOptions, PendingCreate, Which, or_forgotten};

/// The result of creating a node.
pub(crate) enum Enqueued {
    /// The node is in the queue; with the list, if that is certainly newer.
    Mine(QueuedNode, Contender, Option<Arc<Listed>>),
    /// The layout has a single node, and at this path it is another contender's.
    Taken(String),
}

/// Tells the turn of a request that the connection is lost; never ends.
async fn doubting<T>(turn: &SendTurn, link_lost: LinkLost) -> T {
    link_lost.await;
    turn.is_in_doubt();
    pending().await
}

/// The name of the node that is created and deleted to skip a number.
const SKIPPED: &str = "zklock-skips-a-number";

impl AcquireLoop<'_> {
    /// Creates a node in the queue, and the directory if necessary. One round trip if nothing goes
    /// wrong.
    pub(crate) async fn enqueue(&self, generation: &Arc<Generation>) -> Result<Enqueued, Setback> {
        let (driver, mode) = (&self.target.driver, self.request.mode);
        if !driver.supports(mode) {
            return Err(Setback::Failed(unsupported(&**driver, mode)));
        }
        let marks = self.target.marks.any();
        if marks && !driver.keeps_marks() {
            return Err(Setback::Failed(unmarked(&**driver)));
        }
        let runtime = self.lane_permit.lane().runtime();
        let attempt = runtime.attempt();
        // Not kept while it waits.
        let new = {
            let owner = runtime.owner(self.target.app.as_deref()).linger(self.request.lingers);
            // Where the names of nodes recur, it could not be replaced after a handoff.
            let label = self.request.label.as_deref().filter(|_| driver.proof() == Proof::Name);
            driver.node(&attempt, mode, &owner.label(label))
        };
        new.check(&**driver).map_err(Setback::Failed)?;
        let (recurring, kind) = (new.proof != Proof::Name, new.kind);
        // A single name that every contender tries to create; otherwise the name is unique.
        let single = (kind == NodeKind::Ephemeral && recurring).then(|| new.prefix.clone());
        let clock = runtime.clock();
        let sent = marks.then(|| clock.now());
        let payload = new.payload.as_slice().into();
        // Asked before there is a node that nobody would delete, should the layout panic.
        let removes_directory = driver.removes_directory();
        let in_turn = self.turn.map(|turn| (turn, generation.coordinator().link_lost()));
        let mut pending_create =
            PendingCreate::send(generation, self.target.directory.to_shared(), new);
        // If there is a single node, there is nothing to list.
        let looking =
            (single.is_none() && pending_create.is_sent()).then(|| self.look_behind(generation));
        // Of two kinds that come at the same time, the one whose node is later sees the other.
        let beside = self.target.beside.as_ref().filter(|_| pending_create.is_sent());
        let beside = beside.map(|beside| {
            let old = clock.now() + generation.patience();
            (generation.coordinator().get(beside.as_str()), old)
        });
        let mut answer = None;
        if let Some(turn) = self.turn {
            // Its place among the nodes that this session creates one by one is known now.
            answer = poll_once(&mut pending_create).await;
            turn.sent();
        }
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let answered = async {
                    Ok(match in_turn {
                        Some((turn, lost)) => {
                            Box::pin(or(&mut pending_create, doubting(turn, lost))).await
                        }
                        None => (&mut pending_create).await,
                    })
                };
                // Where names recur, a node that it may have made cannot be told from another's. Of those that keep an
                // order, each would be in the way of those before it: they do not know what it has left.
                let stays = recurring || self.turn.is_some();
                let answer =
                    if stays { answered.await } else { self.unless_elsewhere(answered).await };
                if answer.is_err() {
                    let prefix = driver.node(&attempt, mode, &Owner::default()).prefix;
                    self.seen.abandon(prefix);
                }
                answer?
            }
        };
        let is_there = matches!(answer, Ok(_) | Err(RequestError::NodeExists));
        if let Some(turn) = self.turn.filter(|_| is_there) {
            turn.arrived();
        }
        let created = match answer {
            Ok(created) => {
                self.unused.used();
                created
            }
            Err(RequestError::NoNode) => {
                Box::pin(self.unless_elsewhere(self.make_directory(generation))).await?;
                return Err(Setback::NoDirectory);
            }
            Err(RequestError::NodeExists) => match single {
                Some(name) => return Ok(Enqueued::Taken(self.path_of(&name))),
                None => return Err(Box::pin(self.skip_number(generation)).await),
            },
            Err(error) => {
                if error == RequestError::TooManyNodes {
                    self.lane_permit.has_no_room();
                }
                return Err(setback(error));
            }
        };
        let (czxid, ctime) = (created.stat.czxid, created.stat.ctime);
        let mark = sent.map(|sent| {
            let time = ServerTime { ctime, sent, answered: clock.now() };
            Box::new(ReleaseMark::new(self.directory().into(), time))
        });
        let only = recurring.then_some(Which::Czxid(czxid));
        let delete_options = DeleteOptions { only, directory: removes_directory };
        let path = created.path.into();
        let node = QueuedNode::new(generation.clone(), path, czxid, payload, delete_options);
        let node = node.marking(mark).lingering(self.request.lingers);
        let name = node.name();
        let mine = driver.parse(name).filter(|mine| mine.name == name);
        let Some(mine) = mine else {
            return Err(Setback::Failed(unread(&**driver, name)));
        };
        // The name may not show whether the node is a writer's or a mutex's.
        let mine = Contender { mode, ..mine };
        if !(0..LAST_SAFE_SEQUENCE).contains(&mine.sequence) {
            return Err(self.exhausted(mine.sequence));
        }
        let mut is_old = false;
        if let Some((beside, old)) = beside {
            Box::pin(self.check_beside(generation, beside.await)).await?;
            // An answer was missing, and the own node may be gone since the list was read.
            is_old = clock.now() >= old;
        }
        let known = match (looking, single) {
            (_, Some(name)) => Some(self.saw(vec![name])),
            (Some(_), None) if is_old => None,
            // A list from before the node was found again is out of date.
            (Some(looking), None) => {
                let looked = self.looked(generation, looking).await.ok();
                looked.filter(|looked| mine.place_in(&looked.queue).is_some())
            }
            (None, None) => None,
        };
        Ok(Enqueued::Mine(node, mine, known))
    }

    /// The next node would have the name of another child, for example of the directory of another
    /// lock, and ZooKeeper counts creations only: counts one, so that the number is skipped.
    async fn skip_number(&self, generation: &Arc<Generation>) -> Setback {
        let queue = match generation.coordinator().children(self.directory()).await {
            Ok(names) => self.target.driver.queue(&names),
            Err(error) => return setback(error),
        };
        // Past the last number, ZooKeeper repeats it.
        if !queue.iter().all(|one| (0..LAST_SAFE_SEQUENCE).contains(&one.sequence)) {
            return self.exhausted(i64::from(i32::MAX));
        }
        // In one transaction, so nobody sees it and nothing is left.
        let (path, data, kind) = (self.path_of(SKIPPED), Vec::new(), NodeKind::Ephemeral);
        let create = Operation::Create { path: path.clone(), data, kind };
        let skipped = generation.write(vec![create, Operation::Delete { path }]);
        // Without an answer, the next creation shows whether the number is still in the way; to skip one more
        // does no harm.
        match or_forgotten(generation, generation.patience(), skipped).await {
            Ok(()) => Setback::Interrupted,
            Err(RequestError::Multi { error, .. }) => setback(*error),
            Err(error) => setback(error),
        }
    }

    fn exhausted(&self, sequence: i64) -> Setback {
        let driver = &self.target.driver;
        let persistent = driver.directory() != NodeKind::Container || self.target.marks.any();
        // Nobody removes a directory that stays, and before it is empty nobody can.
        let cure = if persistent && !driver.removes_directory() {
            "stop all its users, in every language, and delete its directory, which is empty \
             then: the numbers begin again at 0"
        } else {
            "let its directory become empty, so that it is removed and the numbers begin again at \
             0: stop its users for a minute, or delete the empty node"
        };
        let why = format!(
            "its sequence numbers are nearly used up (at {sequence} of 2147483647); {cure}"
        );
        Setback::Failed(LockError::new(ErrorKind::Exhausted, why).aside(self.directory()))
    }

    /// Creates a node on the path to the directory. A directory with marks is persistent.
    async fn make(&self, generation: &Arc<Generation>, path: &str) -> Result<(), RequestError> {
        let kind = self.target.driver.directory();
        let marked = self.target.marks.any() && path == self.directory();
        if marked && kind == NodeKind::Container {
            let data = Mark::nothing(true).to_data();
            return generation.create(path, &data, NodeKind::Persistent).await.map(drop);
        }
        let new = kind == NodeKind::Container && self.unused.making(generation, path);
        let clock = self.lane_permit.lane().clock();
        let again_at = clock.now() + generation.patience();
        let said = self.target.said.as_deref().filter(|_| path == self.directory());
        let created = generation.create(path, said.unwrap_or_default().as_bytes(), kind).await;
        let not_made = match &created {
            Ok(_) => false,
            // From then on it is asked for again, and the first attempt may have made it.
            Err(RequestError::NodeExists) => clock.now() < again_at,
            Err(error) => error.is_definite(),
        };
        // After an attempt in doubt, this may delete a directory that another client has created,
        // while it is empty. That does no harm: ZooKeeper removes empty containers as well, so
        // every client creates it again when needed.
        if new && not_made {
            self.unused.not_made(path);
        }
        created.map(drop)
    }

    async fn make_directory(&self, generation: &Arc<Generation>) -> Result<(), Setback> {
        let create = |path| self.make(generation, path);
        match make(&self.target.directory, create).await.map_err(setback)? {
            // If one was removed again in between: start over.
            Made::There | Made::Removed => Ok(()),
            Made::NoChroot => {
                let chroot = self.lane_permit.lane().chroot();
                Err(Setback::Failed(no_chroot().aside(chroot)))
            }
        }
    }
}
