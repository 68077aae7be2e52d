#[zk_locked("orders/create", timeout = "2s", retries = 3)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
