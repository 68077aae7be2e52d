#[zk_locked("orders/create", reentrant = false)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
