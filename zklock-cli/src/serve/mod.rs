//! `zklock serve`: a page with the locks, live.

mod breaking;
mod connection;
mod detached;
mod gate;
mod history;
mod looker;
mod routes;
mod state;
mod token;
mod whys;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zklock::{LockName, Session};

use crate::args::Serve;
use crate::exit::Failure;
use crate::inspect::say;
use crate::serve::connection::{Bounded, MOST_STREAMS, Peer};
use crate::serve::gate::Names;
use crate::serve::looker::Looker;
use crate::serve::routes::{Shared, router};
use crate::serve::token::Token;
use crate::serve::whys::Whys;
use crate::server::{Again, servers};
use crate::text::tell;

/// The session expires if it is not closed by then.
const GOODBYE: Duration = Duration::from_millis(500);

/// Serves the page until a signal ends it.
pub(crate) async fn serve(wanted: Serve, again: Again) -> Result<u8, Failure> {
    if let Some(prefix) = &wanted.prefix {
        LockName::new(prefix)?;
    }
    if wanted.interval < Duration::from_millis(100) {
        return Err(Failure::own("--interval: accepted is 100ms or longer"));
    }
    let token = wanted.token_file.as_deref().map(Token::read).transpose()?.map(Arc::new);
    let names = Names::new(&wanted.listen, &wanted.hosts).map_err(Failure::own)?;
    let servers = servers()?;
    // It need not be connected: the page says so, and when it is.
    let session = Session::builder_from_env_for(&servers_as_told())?.open()?;
    let listen = &wanted.listen;
    let cannot = |error| Failure::own(format!("cannot listen on {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let may = if token.is_some() { "who has the token may break locks" } else { "it only shows" };
    say(&format!("the locks are on http://{address}/ ({may})"))?;
    if !address.ip().is_loopback() {
        tell(format_args!(
            "warning: everyone who can reach {address} can read the names of the locks and who holds them"
        ));
    }
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(interrupt)] = &mut ends else {
        return Err(Failure::own("cannot wait for signals"));
    };
    let breaks = token.is_some();
    let looker = Looker::new(session.clone(), servers, wanted.prefix, wanted.interval, breaks);
    let looker = Arc::new(looker);
    let shared = Shared {
        looker: looker.clone(),
        whys: Arc::new(Whys::new(again)),
        streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        token,
    };
    let app = router(shared, names).into_make_service_with_connect_info::<Peer>();
    // What is open when it ends is cut: those who follow would never end.
    tokio::select! {
        () = looker.run() => {}
        served = axum::serve(Bounded::new(listener), app) => served.map_err(cannot)?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = timeout(GOODBYE, session.close()).await;
    Ok(0)
}

fn servers_as_told() -> String {
    std::env::var("ZKLOCK_CONNECT").unwrap_or_default()
}
