#[zk_locked("orders/create", try_once)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
