#[zk_locked("orders/create", on_error = |error| Status::of_lock(error))]
async fn create_order(request: Request) -> Status {
    Status::of(store(&request).await)
}
