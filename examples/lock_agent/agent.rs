//! From requests to replies.

use std::error::Error;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel};
use tokio::task::JoinError;
use tokio::time::timeout;
use zklock::{Session, Site};

use crate::acquire::{self, Pending};
use crate::guards::{Guards, Order};
use crate::inspect;
use crate::options::{Options, layout_of};
use crate::output::Output;
use crate::protocol::{Handle, Operation, Refusal};
use crate::protocol::{answer, failure, not_found, parse, success, unsupported};
use crate::states;

/// How long an acquire that is pending at the end of input may continue, so that requests which
/// were piped in at once get their replies.
const LAST_ACQUIRES: Duration = Duration::from_millis(500);

/// The longest time for a release at the end of input.
const LAST_RELEASES: Duration = Duration::from_secs(5);

/// What all requests share.
pub(crate) struct Agent {
    pub(crate) session: Session,
    pub(crate) output: Output,
    pub(crate) guards: Arc<Guards>,
    pub(crate) pending: Pending,
}

/// Serves until the end of input.
pub(crate) async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let (output, mut writing) = Output::start();
    let session = options.open(&output)?;
    let telling = tokio::spawn(states::tell(session.states(), output.clone()));
    let (guards, pending) = (Arc::<Guards>::default(), Pending::default());
    let agent = Arc::new(Agent { session: session.clone(), output, guards, pending });
    let mut lines = read_lines()?;

    let outcome = tokio::select! {
        input = serve_lines(&agent, &mut lines) => input.map_err(Into::into),
        // The writer ends before the input only if nobody reads the replies.
        written = &mut writing => Err(unwritten(written)),
    };

    telling.abort();
    agent.guards.close();
    if !writing.is_finished() {
        // The writer ends with the last task that has a reply to send.
        let rest = Arc::downgrade(&agent);
        drop(agent);
        if timeout(LAST_ACQUIRES, &mut writing).await.is_err() {
            if let Some(agent) = rest.upgrade() {
                agent.pending.clear();
            }
            let _ = timeout(LAST_RELEASES, &mut writing).await;
        }
    }
    session.close().await;
    outcome
}

fn unwritten(written: Result<io::Result<()>, JoinError>) -> Box<dyn Error> {
    match written {
        Ok(Err(error)) => format!("the answers cannot be written: {error}").into(),
        Err(error) => error.into(),
        Ok(Ok(())) => "the answers cannot be written".into(),
    }
}

/// Reads stdin in a thread, because a blocked read would keep the runtime from ending.
fn read_lines() -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, lines) = channel(64);
    let read = move || {
        for line in io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    Ok(lines)
}

async fn serve_lines(
    agent: &Arc<Agent>,
    lines: &mut Receiver<io::Result<Vec<u8>>>,
) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        match parse(&line?) {
            Ok((id, operation)) => match begin(agent, id, operation) {
                Ok(None) => {}
                Ok(Some(fields)) => agent.output.send(success(id, fields)),
                Err(refusal) => agent.output.send(failure(Some(id), &refusal)),
            },
            Err(refused) => agent.output.send(refused),
        }
    }
    Ok(())
}

/// Begins an operation, without waiting. Returns `None` if a task replies later.
fn begin(agent: &Arc<Agent>, id: u64, operation: Operation) -> Result<Option<Value>, Refusal> {
    let guards = &agent.guards;
    match operation {
        Operation::Acquire(request) => {
            let parent = request.parent.map(|handle| known(handle, guards.find(handle)));
            let parent = parent.transpose()?;
            let acquire = acquire::serve(agent, id, request)?;
            match parent {
                Some(parent) => tell(&parent, Order::Nest(Box::pin(acquire)))?,
                None => drop(tokio::spawn(acquire)),
            }
        }
        Operation::Release { handle } => {
            tell(&known(handle, guards.take(handle))?, Order::Release(id))?;
        }
        Operation::Drop { handle } => {
            tell(&known(handle, guards.take(handle))?, Order::Drop(id))?;
        }
        Operation::Check { handle } => {
            tell(&known(handle, guards.find(handle))?, Order::Check(id))?;
        }
        Operation::Cancel { target } => {
            if !agent.pending.cancel(target, id) {
                return Err(not_found(format_args!("pending acquire with the id {target}")));
            }
        }
        Operation::Contenders { lock, layout } => {
            let (site, output) = (site(agent, &lock, layout.as_deref())?, agent.output.clone());
            tokio::spawn(async move { output.send(answer(id, inspect::contenders(&site).await)) });
        }
        Operation::Revoke { lock, layout } => {
            let (site, output) = (site(agent, &lock, layout.as_deref())?, agent.output.clone());
            tokio::spawn(async move { output.send(answer(id, inspect::revoke(&site).await)) });
        }
        Operation::Downgrade { handle } => {
            tell(&known(handle, guards.find(handle))?, Order::Downgrade(id))?;
        }
        Operation::Split { handle, permits } => {
            tell(&known(handle, guards.find(handle))?, Order::Split(id, permits))?;
        }
        Operation::FencedSet { handle, path, data } => {
            tell(&known(handle, guards.find(handle))?, Order::FencedSet(id, path, data))?;
        }
        Operation::State => return Ok(Some(state(&agent.session))),
        Operation::Unsupported => return Err(unsupported("the operation")),
    }
    Ok(None)
}

/// The queue of a mutex or a read/write lock.
fn site(agent: &Agent, lock: &str, layout: Option<&str>) -> Result<Site, Refusal> {
    let driver = layout_of(&agent.session, layout)?;
    Ok(agent.session.mutex(lock)?.with_driver(driver).site())
}

type GuardTask = UnboundedSender<Order>;

fn known(handle: Handle, task: Option<GuardTask>) -> Result<GuardTask, Refusal> {
    task.ok_or_else(|| not_found(format_args!("guard with the handle {handle}")))
}

fn tell(task: &GuardTask, order: Order) -> Result<(), Refusal> {
    // The task continues until it is told to end, and after that nobody finds it any more.
    task.send(order).map_err(|_| not_found("such guard any more"))
}

fn state(session: &Session) -> Value {
    let zookeeper = session.zookeeper_session();
    json!({
        "state": session.state().as_str(),
        "session": zookeeper.map(|one| format!("{:#x}", one.id)),
        "generation": zookeeper.map(|one| one.number),
    })
}
