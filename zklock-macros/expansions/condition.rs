#[zk_locked("orders/{request.user.id}", condition = request.user.id != GUEST)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
