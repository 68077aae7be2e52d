#[zk_locked("orders/create", crate = crate::locking)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
