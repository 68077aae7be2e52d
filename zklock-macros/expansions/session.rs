#[zk_locked("orders/create", session = "orders")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
