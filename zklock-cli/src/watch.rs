//! Follows a lock, in whatever layouts it is used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;
use zklock::{ContenderInfo, ErrorKind, LockError, LockEvent, Mode, Site};

use crate::exit::Failure;
use crate::inspect::{line, say, value};
use crate::parts::{all_wait, whole};
use crate::server::connect;
use crate::text::json_text;

/// How soon a queue is found that was not there before: nothing tells of one in another layout.
const LOOK: Duration = Duration::from_secs(1);

/// A queue: its path and its layout.
type Place = (String, String);

/// Prints what happens to a lock, until it is interrupted.
pub(crate) async fn watch(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let changed = Arc::new(Notify::new());
    let mut known: BTreeMap<Place, Vec<ContenderInfo>> = BTreeMap::new();
    let mut is_stale = true;
    loop {
        let seen = match session.sites(name).await {
            Ok(sites) if is_stale || sites.iter().any(|site| !known.contains_key(&place(site))) => {
                look(sites, &known).await.map(Some)
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        is_stale = seen.is_err();
        match seen {
            Ok(None) => {}
            Ok(Some(seen)) => {
                let (mut queues, is_first) = (BTreeMap::new(), known.is_empty());
                for (site, queue) in seen {
                    let place = place(&site);
                    if !known.contains_key(&place) {
                        // Where nobody is left, the directory no longer shows its layout.
                        if queue.is_empty() && !is_first {
                            continue;
                        }
                        if !as_json && !site.is_inner() {
                            // Of a lock that nobody uses there is nothing else to print.
                            let (path, layout) = &place;
                            say(&format!("watching {name} ({path}, layout: {layout})"))?;
                        }
                        follow(&site, known.is_empty(), as_json, changed.clone());
                        known.insert(place.clone(), Vec::new());
                    }
                    queues.insert(place, queue);
                }
                for (place, before) in &mut known {
                    let now = queues.remove(place).unwrap_or_default();
                    tell(place, before, &now, as_json)?;
                    *before = now;
                }
            }
            // Whoever follows a queue says that it is blind.
            Err(error) if error.kind() == ErrorKind::Unavailable && !known.is_empty() => {}
            Err(error) => return Err(error.into()),
        }
        is_stale |= timeout(LOOK, changed.notified()).await.is_ok();
    }
}

fn place(site: &Site) -> Place {
    (site.path().to_owned(), site.layout())
}

/// Who is in the queues of a lock. Reads the nodes of those only that were not there before.
async fn look(
    mut sites: Vec<Site>,
    known: &BTreeMap<Place, Vec<ContenderInfo>>,
) -> Result<Vec<(Site, Vec<ContenderInfo>)>, LockError> {
    let mut seen = Vec::new();
    // Who left the inner lock has a permit: read in this order, the permits show that, too, and that the
    // holder before left.
    sites.sort_by_key(|site| !site.is_inner());
    for site in sites {
        let known = known.get(&place(&site)).map(Vec::as_slice).unwrap_or_default();
        let mut queue = whole(&site, known).await?;
        if site.is_inner() {
            all_wait(&mut queue);
        }
        seen.push((site, queue));
    }
    // Who waits for a permit with a node stands in the inner lock as well, and is one waiter all the same.
    if seen.iter().any(|(site, _)| site.is_inner()) {
        let waits = |one: &ContenderInfo| one.mode == Mode::Permit && !one.holds;
        seen.iter_mut().for_each(|(_, queue)| queue.retain(|one| !waits(one)));
    }
    Ok(seen)
}

/// Notices each change of a queue, and tells of lost connections if it is the first one.
fn follow(site: &Site, is_first: bool, as_json: bool, changed: Arc<Notify>) {
    let mut events = site.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if event != LockEvent::Blind {
                changed.notify_one();
            } else if is_first {
                let text = match as_json {
                    true => {
                        json!({ "event": "blind", "path": null, "layout": null, "contender": null })
                            .to_string()
                    }
                    false => "blind   the connection is lost; changes are shown when it is back"
                        .to_owned(),
                };
                // If nobody reads it, the next event is the end.
                _ = say(&text);
            }
        }
    });
}

/// A change as it is called, and whose it is.
fn named(change: &LockEvent) -> Option<(&'static str, &ContenderInfo)> {
    match change {
        LockEvent::Joined(one) => Some(("joined", one)),
        LockEvent::Granted(one) => Some(("granted", one)),
        LockEvent::Left(one) => Some(("left", one)),
        _ => None,
    }
}

/// Prints what is different in a queue.
fn tell(
    place: &Place,
    before: &[ContenderInfo],
    now: &[ContenderInfo],
    as_json: bool,
) -> Result<(), Failure> {
    for (event, one) in LockEvent::between(before, now).iter().filter_map(named) {
        let (path, layout) = place;
        say(&match as_json {
            true => {
                let contender = value(one);
                json_text(&json!({
                    "event": event,
                    "path": path,
                    "layout": layout,
                    "contender": contender,
                }))
            }
            false => format!("{event:8}{}", line(one)),
        })?;
    }
    Ok(())
}
