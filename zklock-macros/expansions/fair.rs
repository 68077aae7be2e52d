#[zk_locked("orders/create", fair)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
