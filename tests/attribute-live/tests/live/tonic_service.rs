//! A service of tonic.

use std::time::Duration;

use tonic::{Code, Request, Response, Status};
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockError, is_held_in_scope, zk_locked};

/// As `docs/recipes.md` has it.
fn status(error: LockError) -> Status {
    tracing::warn!(code = error.code(), "{error:#}");
    match error.kind() {
        ErrorKind::Busy => Status::aborted(error.to_string()),
        _ if error.is_temporary() => Status::unavailable(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}

/// As tonic generates it.
#[tonic::async_trait]
trait Orders: Send + Sync + 'static {
    async fn create(&self, request: Request<u64>) -> Result<Response<u64>, Status>;
    async fn cancel(&self, request: Request<u64>) -> Result<Response<()>, Status>;
}

struct Service {
    tenant: String,
}

#[tonic::async_trait]
impl Orders for Service {
    #[zk_locked(
        "orders/{self.tenant}",
        key = request.get_ref(),
        try_once,
        on_error = |error| Err(status(error))
    )]
    async fn create(&self, request: Request<u64>) -> Result<Response<u64>, Status> {
        assert!(is_held_in_scope("orders/eu/7"));
        tokio::task::yield_now().await;
        Ok(Response::new(request.into_inner() + 1))
    }

    #[zk_locked("orders/{self.tenant}", key = request.get_ref(), on_error = |error| Err(status(error)))]
    #[tracing::instrument(skip_all)]
    async fn cancel(&self, request: Request<u64>) -> Result<Response<()>, Status> {
        self.create(request).await?;
        Ok(Response::new(()))
    }
}

#[tokio::test(start_paused = true)]
async fn methods_of_a_tonic_service_take_their_locks() {
    let locks = TestLocks::install();
    let service: Box<dyn Orders> = Box::new(Service { tenant: "eu".to_owned() });
    // As the server runs them: boxed, `Send`, spawned.
    let answer = tokio::spawn(async move {
        let answer = service.create(Request::new(7)).await;
        service.cancel(Request::new(7)).await.unwrap();
        (answer.unwrap().into_inner(), service)
    });
    let (number, service) = answer.await.unwrap();
    assert_eq!(number, 8);
    assert_eq!(locks.taken(), ["orders/eu/7", "orders/eu/7", "orders/eu/7"]);
    let held = locks.hold("orders/eu/7").unwrap();
    let busy = service.create(Request::new(7)).await.unwrap_err();
    assert_eq!(busy.code(), Code::Aborted);
    assert_eq!(busy.message(), "orders/eu/7 is being processed");
    drop(held);
    locks.begin_outage();
    assert_eq!(service.create(Request::new(7)).await.unwrap_err().code(), Code::Unavailable);
    locks.end_outage();
    locks.session().drain(Duration::ZERO).await;
    assert_eq!(service.create(Request::new(7)).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(status(LockError::new(ErrorKind::Deadlock, "")).code(), Code::Internal);
}
