//! The nodes of a semaphore in its layout, and its queue in this process.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::acquire::target::{OfPermits, Target};
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::kazoo::Kazoo;
use crate::layout::permits::{KAZOO_INNER, KazooPermits, Permits};
use crate::layout::refusals::mixed;
use crate::layout::semaphore_layout::SemaphoreLayout;
use crate::local::kinds;
use crate::local::limit::{Limit, LimitSource};
use crate::local::permit_queue::{Handle, PermitQueue, Targets};
use crate::name::lock_name::LockName;
use crate::name::path::ZnodePath;
use crate::session::handle::Session;
use crate::session::local_queues::{LocalQueue, LocalQueues, of_type};

/// Returns the queue of a semaphore in this process: the one in use, or a new one.
///
/// # Errors
///
/// [`ErrorKind::InvalidOption`] for a limit of 0, for a limit that differs from the one in use in
/// this process or an identifier that differs from the one in use in this session, and for a mutex of this
/// name whose nodes would count as permits;
/// [`ErrorKind::Unsupported`] for a limit in a node if the layout has none.
pub fn find(
    session: &Session,
    name: &LockName,
    source: &LimitSource,
    layout: &SemaphoreLayout,
) -> Result<Handle, LockError> {
    check(source, layout)?;
    let directory = name.path_under(session.root());
    let key = key(layout, &directory);
    // A queue that is no longer used may still be ending.
    let handle = OnceCell::new();
    let is_same = |queue: &PermitQueue| has_limit_of(queue, session, source);
    let inner = inner(layout);
    let is_named_alike = |queue: &PermitQueue| inner.is_same_layout(&**queue.inner_layout());
    let will_do = |queue: &Arc<PermitQueue>| {
        let same = is_same(queue) && is_named_alike(queue);
        if same {
            let _ = handle.set(queue.handle());
        }
        same || queue.is_wanted()
    };
    let mut follower = None;
    let queue = session.local_queues().local_queue_if(&*key, will_do, |key| {
        let said = matches!(layout, SemaphoreLayout::Kazoo { .. }).then(|| directory.clone());
        let (limit, follows) = Limit::of(session, source.clone(), said);
        follower = follows;
        let targets = targets(session, name, layout, directory.clone(), &limit);
        let queue = PermitQueue::of_permits(session, targets, limit, key);
        let _ = handle.set(queue.handle());
        queue
    });
    // Not under the lock of the local queues.
    if let Some(follower) = follower {
        follower.start();
    }
    let queue = queue.map_err(|other| mixed(&**other.driver(), &*rule(layout, Arc::default())))?;
    kinds::meet(session.local_queues(), directory.as_str(), &*queue);
    let elsewhere = session.local_queues().elsewhere(&key);
    let mut others = elsewhere.iter().filter_map(of_type::<PermitQueue>);
    let differs = others.any(|other| other.is_wanted() && !is_same(&other));
    if !is_named_alike(&queue) {
        return Err(mixed(&**queue.inner_layout(), &*inner));
    }
    let Some(handle) = handle.into_inner().filter(|_| !differs) else {
        let why = "this process already uses this semaphore with another limit; use one limit for \
                   all, or keep a limit that changes in a node (`Session::semaphore_with_limit_at`)";
        return Err(LockError::new(ErrorKind::InvalidOption, why));
    };
    Ok(handle)
}

/// Whether a queue of the semaphore has the limit that this session finds at `source`. The two sessions may
/// have other chroots.
fn has_limit_of(queue: &PermitQueue, session: &Session, source: &LimitSource) -> bool {
    match (&queue.limit().source, source) {
        (LimitSource::Fixed(theirs), LimitSource::Fixed(mine)) => theirs == mine,
        (LimitSource::Node(their_node, theirs), LimitSource::Node(my_node, mine)) => {
            let absolute = |queues: &LocalQueues, node: &ZnodePath| {
                [&*queues.place().chroot, node.as_str()].concat()
            };
            let their_node = absolute(queue.local_queues(), their_node);
            theirs == mine && their_node == absolute(session.local_queues(), my_node)
        }
        _ => false,
    }
}

/// Checks that this process does not use the semaphore in two layouts.
///
/// # Errors
///
/// [`ErrorKind::InvalidOption`], which names both.
pub fn check_alone(queue: &PermitQueue) -> Result<(), LockError> {
    // Of two that check at the same time, the later one sees the earlier.
    let before = queue.use_it(true);
    let checked = check_others(queue);
    if checked.is_err() && !before {
        queue.use_it(false);
    }
    checked
}

fn check_others(queue: &PermitQueue) -> Result<(), LockError> {
    let (queues, path) = (queue.local_queues(), queue.lock_path());
    let all = queues.under(path).into_iter().chain(queues.elsewhere(path));
    let semaphores = all.filter_map(|other| of_type::<PermitQueue>(&other));
    let mut used = semaphores.filter(|other| other.is_used() && other.is_wanted());
    let mine = queue.driver();
    match used.find(|other| !mine.is_same_layout(&**other.driver())) {
        Some(other) => Err(mixed(&**other.driver(), &**mine)),
        None => Ok(()),
    }
}

/// Checks that a semaphore of this layout can have this limit.
fn check(source: &LimitSource, layout: &SemaphoreLayout) -> Result<(), LockError> {
    let (LimitSource::Fixed(limit) | LimitSource::Node(_, limit)) = *source;
    if limit == 0 || i32::try_from(limit).is_err() {
        let why = "the limit of a semaphore must be a number from 1 to 2147483647";
        return Err(LockError::new(ErrorKind::InvalidOption, why));
    }
    match (layout, source) {
        (SemaphoreLayout::Kazoo { .. }, LimitSource::Node(..)) => {
            let why = "in kazoo's layout the limit of a semaphore is in its own node, and not in \
                       another one; give a number, or use Curator's layout";
            Err(LockError::new(ErrorKind::Unsupported, why))
        }
        _ => Ok(()),
    }
}

/// The key of a semaphore's queue among the local queues. No path contains a NUL.
fn key(layout: &SemaphoreLayout, directory: &ZnodePath) -> String {
    match layout {
        SemaphoreLayout::Curator => format!("{directory}\0permits"),
        SemaphoreLayout::Kazoo { .. } => format!("{directory}\0kazoo's permits"),
    }
}

/// How permits are counted.
fn rule(layout: &SemaphoreLayout, limit: Arc<AtomicU32>) -> Arc<dyn LockDriver> {
    match layout {
        SemaphoreLayout::Curator => Arc::new(Permits::new(limit)),
        SemaphoreLayout::Kazoo { identifier } => {
            Arc::new(KazooPermits::new(limit, identifier.clone()))
        }
    }
}

/// The layout of the inner lock.
fn inner(layout: &SemaphoreLayout) -> Arc<dyn LockDriver> {
    match layout {
        SemaphoreLayout::Curator => Arc::new(Curator),
        SemaphoreLayout::Kazoo { identifier: None } => Arc::new(Kazoo::default()),
        SemaphoreLayout::Kazoo { identifier: Some(identifier) } => {
            Arc::new(Kazoo::default().identifier(identifier))
        }
    }
}

/// The directories of a semaphore's nodes.
fn targets(
    session: &Session,
    name: &LockName,
    layout: &SemaphoreLayout,
    above: ZnodePath,
    limit: &Limit,
) -> Targets {
    let locks = |directory| Target::new(session, name, directory, inner(layout));
    let leases = |directory| Target {
        permits: Some(Box::new(OfPermits {
            limit: limit.changes.clone(),
            layout: session.driver().clone(),
        })),
        ..Target::new(session, name, directory, rule(layout, limit.shared()))
    };
    match layout {
        SemaphoreLayout::Curator => Targets {
            locks: locks(above.join("locks")),
            leases: Target { beside: Some(above.clone()), ..leases(above.join("leases")) },
            counts_first: false,
        },
        SemaphoreLayout::Kazoo { .. } => Targets {
            locks: locks(above.beside(KAZOO_INNER)),
            // Somebody may delete it after the limit was compared: a client of kazoo compares its own with
            // what the next one says.
            leases: Target { said: Some(limit.now().to_string().into()), ..leases(above) },
            counts_first: true,
        },
    }
}
