//! `zklock top`: the locks in use, live.

pub(crate) mod look;
mod model;
mod screen;
pub(crate) mod warnings;
mod watched;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::exit::Failure;
use crate::inspect::say;
use crate::server::{Again, connect, servers};
use crate::signals::{Signals, exit_code};
use crate::text::{json_text, printable};
use crate::top::look::look;
use crate::top::model::{Key, Model};
use crate::top::screen::Screen;

/// The session expires if it is not closed by then.
const GOODBYE: Duration = Duration::from_millis(500);
/// The signals that end it.
const ENDS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Shows the locks in use until it is ended: in a terminal on the whole screen, otherwise or with
/// `--json` one document after the other.
pub(crate) async fn top(interval: Duration, again: Again, as_json: bool) -> Result<u8, Failure> {
    let servers = servers()?;
    let session = connect().await?;
    let mut model = Model::new(again);
    if as_json || !stdout().is_terminal() {
        loop {
            let begin = Instant::now();
            let (found, views) = look(&session, &servers, None).await?;
            model.seen(found, &views, std::time::Instant::now());
            let mut document = json!({ "locks": model.values() });
            model.left_out.add_to(&mut document);
            say(&json_text(&document))?;
            sleep(interval.max(begin.elapsed())).await;
        }
    }
    let failed = |error: std::io::Error| Failure::own(format!("cannot use the terminal: {error}"));
    // Before the terminal is changed: it is given back as it was, whatever ends this.
    let mut signals = Signals::of(&ENDS)?;
    let mut screen = Screen::open().map_err(failed)?;
    let mut keys = screen::keys();
    let shows = async {
        let mut trouble = None;
        loop {
            let begin = Instant::now();
            let looking = look(&session, &servers, None);
            let seen = meanwhile(&mut screen, &mut keys, &mut model, trouble.as_deref(), looking);
            let Some(seen) = seen.await? else { return Ok(0) };
            // What was seen last stays on the screen, with the reason why it is old.
            trouble = match seen {
                Ok((found, views)) => {
                    model.seen(found, &views, std::time::Instant::now());
                    None
                }
                Err(error) => Some(printable(&format!("{error:#}"))),
            };
            model.slow = Some(begin.elapsed()).filter(|took| *took > interval);
            // At most half of the time it looks.
            let pause = sleep(interval.max(begin.elapsed()));
            let slept = meanwhile(&mut screen, &mut keys, &mut model, trouble.as_deref(), pause);
            if slept.await?.is_none() {
                return Ok(0);
            }
        }
    };
    let shown = tokio::select! {
        shown = shows => shown.map_err(failed),
        signal = signals.next() => Ok(exit_code(signal as i32)),
    };
    drop(screen);
    let _ = timeout(GOODBYE, session.close()).await;
    shown
}

/// Draws, and heeds keys, until something is done. `None`: a key ends it.
async fn meanwhile<T>(
    screen: &mut Screen,
    keys: &mut mpsc::UnboundedReceiver<Key>,
    model: &mut Model,
    trouble: Option<&str>,
    done: impl Future<Output = T>,
) -> std::io::Result<Option<T>> {
    tokio::pin!(done);
    loop {
        screen.draw(&model.lines(screen.size(), trouble))?;
        tokio::select! {
            done = &mut done => return Ok(Some(done)),
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(None),
                Some(Key::Sort(sort)) => model.sort = sort,
                Some(Key::Redraw) => {}
            },
        }
    }
}
