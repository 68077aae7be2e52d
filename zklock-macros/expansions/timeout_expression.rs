#[zk_locked("orders/create", timeout = CONFIG.order_wait)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
