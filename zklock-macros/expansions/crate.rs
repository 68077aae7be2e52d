#[zk_locked("orders/create", crate = prelude::zklock)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
