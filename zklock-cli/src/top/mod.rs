//! `zklock top`: the locks in use, live.

mod model;
mod screen;
pub(crate) mod warnings;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use zklock::{LockError, Session};

use crate::exit::Failure;
use crate::inspect::say;
use crate::ls::locks;
use crate::server::{connect, servers};
use crate::signals::{Signals, exit_code};
use crate::top::model::{Key, Model};
use crate::top::screen::Screen;
use crate::why::view::ask_connections;

/// The session expires if it is not closed by then.
const GOODBYE: Duration = Duration::from_millis(500);
/// The signals that end it.
const ENDS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Shows the locks in use until it is ended: in a terminal on the whole screen, otherwise or with
/// `--json` one document after the other.
pub(crate) async fn top(interval: Duration, as_json: bool) -> Result<u8, Failure> {
    let servers = servers()?;
    let session = connect().await?;
    let mut model = Model::default();
    if as_json || !stdout().is_terminal() {
        loop {
            refresh(&session, &servers, &mut model).await?;
            say(&json!({ "locks": model.values() }).to_string())?;
            tokio::time::sleep(interval).await;
        }
    }
    let failed = |error: std::io::Error| Failure::own(format!("cannot use the terminal: {error}"));
    // Before the terminal is changed: it is given back as it was, whatever ends this.
    let mut signals = Signals::of(&ENDS)?;
    let mut screen = Screen::open().map_err(failed)?;
    let mut keys = screen::keys();
    let shows = async {
        loop {
            // What was seen last stays on the screen, with the reason why it is old.
            let trouble = refresh(&session, &servers, &mut model).await.err();
            let trouble = trouble.map(|error| format!("{error}"));
            let next = Instant::now() + interval;
            if !until_next(&mut screen, &mut keys, &mut model, trouble.as_deref(), next).await? {
                return Ok(0);
            }
        }
    };
    let shown = tokio::select! {
        shown = shows => shown.map_err(failed),
        signal = signals.next() => Ok(exit_code(signal)),
    };
    drop(screen);
    let _ = timeout(GOODBYE, session.close()).await;
    shown
}

/// Draws, and heeds keys, until it is time to look again. False: a key ends it.
async fn until_next(
    screen: &mut Screen,
    keys: &mut mpsc::UnboundedReceiver<Key>,
    model: &mut Model,
    trouble: Option<&str>,
    next: Instant,
) -> std::io::Result<bool> {
    loop {
        screen.draw(&model.lines(screen.size(), trouble))?;
        tokio::select! {
            () = sleep_until(next) => return Ok(true),
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(false),
                Some(Key::Sort(sort)) => model.sort = sort,
                Some(Key::Redraw) => {}
            },
        }
    }
}

async fn refresh(
    session: &Session,
    servers: &[String],
    model: &mut Model,
) -> Result<(), LockError> {
    let own = session.zookeeper_session().map(|(id, _)| id);
    let views = ask_connections(servers, own).await;
    model.seen(locks(session, None).await?, &views, std::time::Instant::now());
    Ok(())
}
