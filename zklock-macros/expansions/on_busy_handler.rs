#[zk_locked("orders/create", on_busy = |error| Err(ApiError::Conflict(error.to_string())))]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
