#[zk_locked("orders/create", on_revoked = cancel)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
