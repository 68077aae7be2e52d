#[zk_locked("orders/create", driver = zklock::layout::Kazoo::default())]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
