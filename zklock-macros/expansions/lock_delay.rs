#[zk_locked("orders/create", lock_delay = "15s")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
