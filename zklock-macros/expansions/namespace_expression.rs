#[zk_locked("orders/create", namespace = CONFIG.namespace)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
