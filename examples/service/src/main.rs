//! The service as a program, on the embedded coordinator:
//!
//! ```sh
//! cargo run --package zklock-service-example
//! ```
//!
//! Or several of them on one ZooKeeper, with the same data:
//!
//! ```sh
//! cargo run --package zklock-service-example -- --connect 127.0.0.1:2181 --port 3001
//! ```

mod options;

use std::process::ExitCode;
use std::time::Duration;

use service::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zklock::Session;

use options::{HELP, Options};

/// How long requests may take to finish when the service is stopped.
const STOPPING: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}; see --help");
            return ExitCode::from(2);
        }
    };
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let store = Store::open(options.data, options.latency)?;
    let session = Session::builder_for(&options.connect).app("service").metrics().connect().await?;
    let recorder = service::recorder(&session)?;
    zklock::init(session.clone());
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    println!("listening on http://{}, locks on {}", listener.local_addr()?, options.connect);
    let routes = service::app(store).merge(service::metrics(recorder));
    let (stop, stopping) = oneshot::channel::<()>();
    let stopping = async { drop(stopping.await) };
    let serving = axum::serve(listener, routes).with_graceful_shutdown(stopping);
    let serving = tokio::spawn(serving.into_future());
    stopped().await;
    // From now on no lock is granted: who waits for one fails with `Closing`, and holders go on.
    session.drain(Duration::ZERO).await;
    drop(stop);
    // A request that does not end does not keep the process.
    let served = timeout(STOPPING, serving).await;
    for left in session.drain(Duration::ZERO).await {
        tracing::warn!(
            lock = &*left.lock,
            caller = left.caller,
            "a lock is still held, and is given up"
        );
    }
    session.close().await;
    if let Ok(served) = served {
        served??;
    }
    Ok(())
}

/// Resolves when the process is asked to stop.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    // Where no signal can be received, the service runs until it is killed.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
