//! Handlers of axum.

use axum::Router;
use axum::body::Body;
use axum::extract::{Json, Path, Query, State};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tower::ServiceExt as _;
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockError, is_held_in_scope, zk_locked};

/// What every handler answers with when it fails.
struct ApiError(StatusCode, String);

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        let status = match error.kind() {
            ErrorKind::Busy => StatusCode::CONFLICT,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiError(status, format!("{}: {error}", error.code()))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

#[derive(Clone)]
struct Shop {
    name: &'static str,
}

#[derive(Deserialize)]
struct OrderRequest {
    customer: u64,
}

#[derive(Serialize)]
struct Order {
    number: u64,
}

#[zk_locked("orders/{request.customer}", timeout = "100ms", retries = 1)]
async fn create(
    State(shop): State<Shop>,
    Json(request): Json<OrderRequest>,
) -> Result<Json<Order>, ApiError> {
    assert!(is_held_in_scope(format!("orders/{}", request.customer)));
    tokio::task::yield_now().await;
    Ok(Json(Order { number: shop.name.len() as u64 }))
}

#[axum::debug_handler]
#[zk_locked("reports/{id}", try_once)]
#[tracing::instrument]
async fn above(Path(id): Path<u64>) -> Result<String, ApiError> {
    Ok(id.to_string())
}

#[tracing::instrument]
#[zk_locked("reports/{id}", try_once)]
#[axum::debug_handler]
async fn below(Path(id): Path<u64>) -> Result<String, ApiError> {
    Ok(id.to_string())
}

#[derive(Deserialize)]
struct Page {
    from: u32,
}

fn failed(error: LockError) -> Response {
    ApiError::from(error).into_response()
}

#[zk_locked("pages", key = page.from, on_error = failed, try_once)]
async fn page(Query(page): Query<Page>) -> Response {
    page.from.to_string().into_response()
}

fn app() -> Router {
    Router::new()
        .route("/orders", post(create))
        .route("/above/{id}", get(above))
        .route("/below/{id}", get(below))
        .route("/pages", get(page))
        .with_state(Shop { name: "shop" })
}

async fn answer(request: Request<Body>) -> (StatusCode, String) {
    let response = app().oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn ask(path: &str) -> (StatusCode, String) {
    answer(Request::get(path).body(Body::empty()).unwrap()).await
}

async fn order() -> (StatusCode, String) {
    let request = Request::post("/orders").header("content-type", "application/json");
    answer(request.body(Body::from(r#"{"customer":7}"#)).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn handlers_take_their_locks() {
    let locks = TestLocks::install();
    assert_eq!(order().await, (StatusCode::OK, r#"{"number":4}"#.to_owned()));
    assert_eq!(ask("/above/3").await, (StatusCode::OK, "3".to_owned()));
    assert_eq!(ask("/below/4").await, (StatusCode::OK, "4".to_owned()));
    assert_eq!(ask("/pages?from=5").await, (StatusCode::OK, "5".to_owned()));
    assert_eq!(locks.taken(), ["orders/7", "reports/3", "reports/4", "pages/5"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_409_with_its_code_and_a_lost_store_503() {
    let locks = TestLocks::install();
    let names = ["orders/7", "reports/3", "reports/4", "pages/5"];
    let held: Vec<_> = names.into_iter().map(|name| locks.hold(name).unwrap()).collect();
    for answer in [order().await, ask("/above/3").await, ask("/below/4").await] {
        assert_eq!(answer.0, StatusCode::CONFLICT);
        assert!(answer.1.starts_with("1011: "), "{}", answer.1);
    }
    assert_eq!(ask("/pages?from=5").await.0, StatusCode::CONFLICT);
    drop(held);
    locks.begin_outage();
    assert_eq!(order().await.0, StatusCode::SERVICE_UNAVAILABLE);
}
