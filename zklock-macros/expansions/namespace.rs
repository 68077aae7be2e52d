#[zk_locked("orders/create", namespace = "billing")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
