#[zk_locked("orders/create", hold_at_most = "10m")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
