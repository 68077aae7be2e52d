#[zk_locked("orders/create", stop_at = suspect)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
