//! What is asked, and what is answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{ConnectInfo, Json, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use futures_lite::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::args::czxid;
use crate::breaks::told;
use crate::serve::breaking::{self, Broken, Wanted};
use crate::serve::connection::Peer;
use crate::serve::gate::{Names, gate};
use crate::serve::looker::{Looker, Seen};
use crate::serve::token::Token;
use crate::serve::whys::Whys;
use crate::text::json_text;

/// A connection without news is kept open by so little.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// So often the page hears that it is still told what is seen: after ten seconds without it, it takes the connection for
/// one that was cut.
const TELL_EVERY: Duration = Duration::from_secs(4);

/// What the routes share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) looker: Arc<Looker>,
    pub(super) whys: Arc<Whys>,
    /// Room for streams of events.
    pub(super) streams: Arc<Semaphore>,
    pub(super) token: Option<Arc<Token>>,
}

type Refusal = (StatusCode, Json<Value>);

pub(super) fn refusal(code: StatusCode, why: impl Into<String>) -> Refusal {
    (code, Json(json!({ "error": why.into() })))
}

pub(super) fn router(shared: Shared, names: Names) -> Router {
    let page = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    let mut router = Router::new()
        .route("/", page("text/html; charset=utf-8", include_str!("page/index.html")))
        .route("/page.css", page("text/css; charset=utf-8", include_str!("page/page.css")))
        .route("/page.js", page("text/javascript; charset=utf-8", include_str!("page/page.js")))
        .route("/icon.svg", page("image/svg+xml", include_str!("page/icon.svg")))
        .route("/api/events", get(events))
        .route("/api/locks", get(locks))
        .route("/api/timeline", get(timeline))
        .route("/api/why", get(why));
    if shared.token.is_some() {
        router = router.route("/api/break", post(break_node));
    }
    let router = router.fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here"));
    router.with_state(shared).layer(middleware::from_fn_with_state(Arc::new(names), gate))
}

/// What is seen, as it changes.
async fn events(
    State(shared): State<Shared>,
) -> Result<Sse<impl Stream<Item = Result<Event, String>>>, Refusal> {
    let room = shared.streams.try_acquire_owned();
    let room = room.map_err(|_| {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "as many follow already as may at the same time")
    })?;
    let looker = shared.looker;
    let follow = (looker.follow(), looker, 0, Vec::new(), room);
    let events = stream::unfold(follow, async |(mut all, looker, mut shown, mut next, room)| {
        while next.is_empty() {
            // A look may last for longer.
            if let Ok(changed) = timeout(TELL_EVERY, all.changed()).await {
                changed.ok()?;
            }
            let seen = all.borrow_and_update().clone();
            // The last one goes first.
            if let Some(look) = looker.told(&seen) {
                next.push(Event::default().event("look").data(look));
            }
            if seen.number != shown {
                shown = seen.number;
                next.push(Event::default().event("state").data(seen.state));
            }
        }
        Some((Ok(next.pop()?), (all, looker, shown, next, room)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn as_json(text: impl Into<String>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// Fails with what is wrong, unless ZooKeeper answered.
fn answered(seen: Seen) -> Result<Seen, Refusal> {
    match seen.trouble.as_deref() {
        Some(trouble) => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, trouble)),
        None => Ok(seen),
    }
}

async fn locks(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
) -> Result<Response, Refusal> {
    let _works = peer.works();
    Ok(as_json(&*answered(shared.looker.fresh().await)?.state))
}

fn name(query: &HashMap<String, String>) -> Result<&str, Refusal> {
    let name = query.get("name").map(String::as_str);
    name.ok_or_else(|| {
        refusal(StatusCode::BAD_REQUEST, "the name of the lock is missing: ?name=NAME")
    })
}

fn unknown(name: &str) -> Refusal {
    refusal(StatusCode::NOT_FOUND, format!("{name:?} is not in use, or not shown here"))
}

type Asked = Query<HashMap<String, String>>;

async fn timeline(State(shared): State<Shared>, query: Asked) -> Result<Response, Refusal> {
    let name = name(&query)?;
    let value = shared.looker.history(|history| history.value(name));
    Ok(as_json(json_text(&value.ok_or_else(|| unknown(name))?)))
}

async fn why(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked,
) -> Result<Response, Refusal> {
    let _works = peer.works();
    let name = name(&query)?;
    let knows = || shared.looker.history(|history| history.knows(name));
    if !knows() {
        answered(shared.looker.fresh().await)?;
        if !knows() {
            return Err(unknown(name));
        }
    }
    let says = shared.whys.ask(name).await;
    says.map(as_json).map_err(|why| refusal(StatusCode::SERVICE_UNAVAILABLE, why))
}

async fn break_node(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    wanted: Result<Json<Value>, JsonRejection>,
) -> Result<Response, Refusal> {
    let header = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some(token) = &shared.token else {
        return Err(refusal(StatusCode::NOT_FOUND, "there is nothing here"));
    };
    if !token.is_in(header).await {
        return Err(refusal(StatusCode::UNAUTHORIZED, "this is not the token of --token-file"));
    }
    // Those who guess wait for each other, and have no such right.
    let _works = peer.works();
    let Json(wanted) = wanted.map_err(|error| refusal(error.status(), error.body_text()))?;
    let field = |name: &str| {
        let field = wanted[name].as_str().map(str::to_owned);
        field.ok_or_else(|| {
            refusal(StatusCode::BAD_REQUEST, format!("{name:?} is missing, a string"))
        })
    };
    let (name, node) = (field("name")?, field("node")?);
    let czxid = czxid(&field("czxid")?);
    let czxid =
        czxid.map_err(|why| refusal(StatusCode::BAD_REQUEST, format!("\"czxid\": {why}")))?;
    let held = match &wanted["holds"] {
        Value::Null => None,
        Value::Bool(held) => Some(*held),
        _ => return Err(refusal(StatusCode::BAD_REQUEST, "\"holds\" is no boolean")),
    };
    let looker = &shared.looker;
    if !looker.history(|history| history.knows(&name)) {
        return Err(unknown(&name));
    }
    let breaking = breaking::break_node(
        looker.clone(),
        Wanted { from: peer.from, name: name.clone(), node, czxid, held },
    );
    let broken = breaking.await;
    let broken = broken.map_err(|why| refusal(StatusCode::SERVICE_UNAVAILABLE, why))?;
    if let Broken::Differs { holds } = broken {
        let does = if holds { "it holds the lock now" } else { "it does not hold the lock now" };
        return Err(refusal(StatusCode::CONFLICT, format!("{does}: look at it again")));
    }
    Ok(as_json(json_text(&told(&name, matches!(broken, Broken::Deleted)))))
}
