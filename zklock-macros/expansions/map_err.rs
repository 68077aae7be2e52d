#[zk_locked("orders/create", map_err = ApiError::Lock)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
