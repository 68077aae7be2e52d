#[zk_locked("accounts", key = request.account())]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
