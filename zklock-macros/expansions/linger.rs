#[zk_locked("orders/create", linger = "5s")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
