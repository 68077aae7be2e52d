//! The handlers. While a handler holds its lock, what it has read stays true.

use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use serde::{Deserialize, Serialize};
use zklock::{ErrorKind, LockError, zk_locked};

use crate::answer::Failure;
use crate::store::Store;

/// The routes.
pub fn app(store: Store) -> Router {
    Router::new()
        .route("/orders", post(create_order))
        .route("/accounts/{account}", put(open_account))
        .route("/transfers", post(transfer))
        .route("/reports/{one}/{other}", get(report))
        .route("/jobs/{job}", post(run_job))
        .with_state(store)
}

#[derive(Deserialize)]
struct OrderRequest {
    customer: u64,
}

#[derive(Serialize)]
struct Order {
    number: u64,
    customer: u64,
}

/// Issues the next order number: one order at a time, in all processes.
#[zk_locked("orders/create", timeout = "2s", retries = 2, on_lost = finish)]
async fn create_order(
    State(store): State<Store>,
    Json(OrderRequest { customer }): Json<OrderRequest>,
) -> Result<Json<Order>, Failure> {
    let number = store.last_order().await? + 1;
    still_held()?;
    store.add_order(number, customer)?;
    Ok(Json(Order { number, customer }))
}

#[derive(Deserialize)]
struct Account {
    balance: u64,
}

/// Opens an account, or sets its balance.
#[zk_locked("accounts/{account}", mode = write, on_lost = finish)]
async fn open_account(
    State(store): State<Store>,
    Path(account): Path<u64>,
    Json(Account { balance }): Json<Account>,
) -> Result<StatusCode, Failure> {
    still_held()?;
    store.set_balances(&[(account, balance)])?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Transfer {
    from: u64,
    to: u64,
    amount: u64,
}

/// Transfers money. Both accounts are locked, always in the same order, so transfers in opposite
/// directions do not deadlock; transfers between other accounts run at the same time.
#[zk_locked("accounts", key = order.from, key = order.to, mode = write, on_lost = finish)]
async fn transfer(
    State(store): State<Store>,
    Json(order): Json<Transfer>,
) -> Result<StatusCode, Failure> {
    let Transfer { from, to, amount } = order;
    let payer = store.balance(from).await?.ok_or(Failure::NoSuchAccount(from))?;
    let payee = store.balance(to).await?.ok_or(Failure::NoSuchAccount(to))?;
    let payer = payer.checked_sub(amount).ok_or(Failure::NotEnough(from))?;
    let payee = payee.checked_add(amount).ok_or(Failure::TooMuch(to))?;
    if from != to {
        still_held()?;
        store.set_balances(&[(from, payer), (to, payee)])?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize)]
struct Report {
    balances: [u64; 2],
    total: u64,
}

/// Shows two accounts at the same moment: together with other readers, and never in the middle of a
/// transfer.
#[zk_locked("accounts", key = one, key = other, mode = read)]
async fn report(
    State(store): State<Store>,
    Path((one, other)): Path<(u64, u64)>,
) -> Result<Json<Report>, Failure> {
    let mut balances = [0; 2];
    for (account, balance) in [one, other].into_iter().zip(&mut balances) {
        *balance = store.balance(account).await?.ok_or(Failure::NoSuchAccount(account))?;
    }
    Ok(Json(Report { balances, total: balances[0].saturating_add(balances[1]) }))
}

#[derive(Serialize)]
struct JobRun {
    ran: bool,
}

async fn run_job(
    State(store): State<Store>,
    Path(job): Path<u64>,
) -> Result<Json<JobRun>, Failure> {
    Ok(Json(JobRun { ran: job_once(&store, job).await?.is_some() }))
}

/// Runs a job that has not been done; a request that comes while another one runs it returns at
/// once.
#[zk_locked("jobs/{job}", try_once, on_busy = skip, on_lost = finish)]
async fn job_once(store: &Store, job: u64) -> Result<Option<()>, Failure> {
    if store.is_done(job).await? {
        return Ok(None);
    }
    still_held()?;
    store.done(job)?;
    Ok(Some(()))
}

/// Checks the lock directly before a write, because it can be lost while the body waits.
fn still_held() -> Result<(), LockError> {
    if zklock::current().is_valid() {
        return Ok(());
    }
    Err(LockError::new(ErrorKind::Lost, "the lock was lost before anything was written"))
}
