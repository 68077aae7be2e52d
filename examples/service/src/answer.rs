//! The responses of a handler that cannot do its work.

use std::io;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use zklock::{ErrorKind, LockError};

pub(crate) enum Failure {
    Lock(LockError),
    Store(io::Error),
    NoSuchAccount(u64),
    NotEnough(u64),
    TooMuch(u64),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Failure::Lock(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Store(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Failure::Lock(error) => {
                // For the log: who holds the lock, paths, causes. Clients are told none of it.
                tracing::warn!(code = error.code(), "{error:#}");
                (status(&error), error.code(), error.to_string())
            }
            Failure::Store(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "store", error.to_string())
            }
            Failure::NoSuchAccount(account) => {
                (StatusCode::NOT_FOUND, "account", format!("there is no account {account}"))
            }
            Failure::NotEnough(account) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "funds", format!("{account} has not enough"))
            }
            Failure::TooMuch(account) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "funds", format!("{account} has too much"))
            }
        };
        let body = serde_json::json!({ "code": code, "message": message });
        (status, Json(body)).into_response()
    }
}

/// After what is temporary the client may try again: no work has begun. Work that was cut short may have
/// taken effect. The other kinds are errors of the service.
fn status(error: &LockError) -> StatusCode {
    match error.kind() {
        ErrorKind::Busy => StatusCode::CONFLICT,
        _ if error.is_temporary() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
