#[zk_locked("orders/create", warn_waiting = "15s", warn_holding = "1m")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
