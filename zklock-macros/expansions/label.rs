#[zk_locked("orders/create", label = "user {request.user.id}")]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
