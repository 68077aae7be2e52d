//! The template: running code under a lock by hand.
//!
//! ```text
//! cargo run --example template
//! cargo run --example template -- --connect 127.0.0.1:2181
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};
use zklock::{Embedded, FencingToken, LockError, LockOptions, Session, ZkLockTemplate};

const HELP: &str = "\
Shows ZkLockTemplate: success, a busy lock and its holder, fencing tokens, and threads.

Usage: template [--connect HOST:PORT]

  --connect HOST:PORT    a real ZooKeeper (a connect string); without it the embedded coordinator,
                         in the memory of this process
  -h, --help             prints this help
";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match parse() {
        Ok(Some(store)) => run(store).await,
        Ok(None) => io::stdout().write_all(HELP.as_bytes()).map_err(Into::into),
        Err(error) => {
            eprintln!("template: {error}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("template: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(store: Store) -> Outcome<()> {
    let mut out = io::stdout();
    // Two sessions stand for two services.
    let (orders, billing) = (store.session("orders").await?, store.session("billing").await?);
    writeln!(out, "{store}\n")?;

    let template = ZkLockTemplate::new(orders.clone());
    let order = template.execute("createOrder", || async { "order 1" }).await?;
    writeln!(out, "execute returned {order:?}")?;

    show_busy(&mut out, &template, &billing).await?;
    show_tokens(&mut out, &template).await?;

    // The same for threads. Blocking calls must not run on the threads of a runtime.
    let call = move || template.blocking_execute("createOrder", || "order 2");
    let order = tokio::task::spawn_blocking(call).await??;
    writeln!(out, "the thread returned {order:?}")?;

    orders.close().await;
    billing.close().await;
    Ok(())
}

/// While one service holds the lock, the other one learns who holds it.
async fn show_busy(
    out: &mut impl Write,
    template: &ZkLockTemplate,
    billing: &Session,
) -> Outcome<()> {
    let guard = billing.mutex("createOrder")?.acquire().await?;

    // Two tries of at most 100 ms each: at most 200 ms.
    let options = LockOptions::new().timeout(Duration::from_millis(100)).retries(2);
    let impatient = template.clone().with_options(options);
    let outcome = impatient.execute("createOrder", || async { "never" }).await;
    match outcome {
        Err(error) if error.is_busy() => {
            writeln!(out, "busy, code {}: {error:#}", error.code())?;
            if let Some(holder) = error.holder() {
                let app = holder.owner.app.as_deref().unwrap_or("an unknown application");
                writeln!(out, "  held by {app}, contenders ahead: {}", holder.ahead)?;
            }
        }
        Err(error) => return Err(error.into()),
        Ok(never) => return Err(format!("the body ran without the lock: {never}").into()),
    }

    guard.release().await?;
    Ok(())
}

/// Each grant has a greater token than the one before, so a late write can be recognised and
/// refused.
async fn show_tokens(out: &mut impl Write, template: &ZkLockTemplate) -> Outcome<()> {
    let mut ledger = Ledger::default();
    let first = token(template).await?;
    let second = token(template).await?;
    for (write, token) in [("first", first), ("second", second), ("late first", first)] {
        let verdict = if ledger.accept(token) { "accepted" } else { "refused" };
        writeln!(out, "token {token}: {write} write {verdict}")?;
    }
    Ok(())
}

async fn token(template: &ZkLockTemplate) -> Result<FencingToken, LockError> {
    template.execute_with("createOrder", |guard| async move { guard.fencing_token() }).await
}

/// Stands for the table or file that the lock protects: it keeps the greatest token it has seen.
#[derive(Default)]
struct Ledger(Option<FencingToken>);

impl Ledger {
    fn accept(&mut self, token: FencingToken) -> bool {
        let fresh = self.0.is_none_or(|greatest| token >= greatest);
        if fresh {
            self.0 = Some(token);
        }
        fresh
    }
}

/// The servers, or the embedded coordinator.
enum Store {
    Embedded(Embedded),
    Servers(String),
}

impl Store {
    async fn session(&self, app: &str) -> Result<Session, LockError> {
        match self {
            Store::Servers(servers) => Session::builder(servers).app(app).connect().await,
            Store::Embedded(store) => Session::embedded_builder(store).app(app).open(),
        }
    }
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Store::Servers(servers) => write!(f, "ZooKeeper at {servers}"),
            Store::Embedded(_) => {
                f.write_str("Embedded coordinator, in the memory of this process")
            }
        }
    }
}

/// `None` asks for help.
fn parse() -> Result<Option<Store>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut store = Store::Embedded(Embedded::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("connect") => store = Store::Servers(parser.value()?.string()?),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(store))
}
