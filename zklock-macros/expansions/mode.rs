#[zk_locked("prices", mode = read)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
