#[zk_locked("orders/{request.user.id}/{shop}")]
async fn create_order(request: Request, shop: &str) -> Result<Order, ApiError> {
    store(&request).await
}
