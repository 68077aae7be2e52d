#[zk_locked("orders/create", timeout = "1500ms")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
