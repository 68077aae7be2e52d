#[zk_locked("accounts", key = from, key = request.account())]
async fn create_order(from: u64, request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
