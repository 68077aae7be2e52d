#[zk_locked("orders/create", options = JOBS, retries = 1)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
