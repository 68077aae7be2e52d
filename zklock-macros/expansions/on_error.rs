#[zk_locked("orders/create", on_error = |error| Status::unavailable(error))]
async fn create_order(request: Request) -> Status {
    Status::of(store(&request).await)
}
