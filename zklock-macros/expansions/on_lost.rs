#[zk_locked("orders/create", on_lost = finish)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
