//! Locks that are lost or out of reach, without a server.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use serde_json::Value;
use service::{Store, app};
use tower::ServiceExt as _;
use zklock::testing::TestLocks;

use crate::process::Folder;

async fn order(app: Router) -> Response<Body> {
    let request = Request::post("/orders").header("content-type", "application/json");
    app.oneshot(request.body(Body::from(r#"{"customer":7}"#)).unwrap()).await.unwrap()
}

async fn code(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["code"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_is_500_and_nothing_is_written() {
    let (locks, data) = (TestLocks::install(), Folder::new("lost"));
    let app = app(Store::open(&data.0, Duration::from_secs(1)).unwrap());
    let answer = tokio::spawn(order(app.clone()));
    while locks.taken().is_empty() {
        tokio::task::yield_now().await;
    }
    locks.lose();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_ne!(code(answer).await, "1011");
    assert!(!data.0.join("orders/1").exists());
    assert_eq!(order(app).await.status(), StatusCode::OK);
    assert!(data.0.join("orders/1").exists());
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_409_and_one_out_of_reach_503() {
    let (locks, data) = (TestLocks::install(), Folder::new("busy"));
    let app = app(Store::open(&data.0, Duration::ZERO).unwrap());
    let held = locks.hold("orders/create").unwrap();
    let answer = order(app.clone()).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert_eq!(code(answer).await, "1011");
    drop(held);
    locks.begin_outage();
    let answer = order(app).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_ne!(code(answer).await, "1011");
}

/// As a process leaves it that is killed after it has created an order.
#[tokio::test(start_paused = true)]
async fn a_number_that_is_taken_costs_one_order_and_not_all() {
    let (_locks, data) = (TestLocks::install(), Folder::new("taken"));
    let app = app(Store::open(&data.0, Duration::from_secs(1)).unwrap());
    std::fs::write(data.0.join("orders/1"), "7").unwrap();
    assert_eq!(order(app.clone()).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(order(app).await.status(), StatusCode::OK);
    assert!(data.0.join("orders/2").exists());
}

/// As of a process that was stopped, while others had the lock.
#[tokio::test(start_paused = true)]
async fn an_order_that_comes_too_late_leaves_the_counter_alone() {
    let (_locks, data) = (TestLocks::install(), Folder::new("late"));
    let app = app(Store::open(&data.0, Duration::from_secs(1)).unwrap());
    let answer = tokio::spawn(order(app));
    // It has read by then that there is none.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (file, text) in [("1", "8"), ("2", "8"), ("last", "2")] {
        std::fs::write(data.0.join("orders").join(file), text).unwrap();
    }
    assert_eq!(answer.await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(std::fs::read_to_string(data.0.join("orders/last")).unwrap(), "2");
}
