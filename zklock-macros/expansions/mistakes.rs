#[zk_locked("orders/{id}", timeout = "2", retry = 2)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
