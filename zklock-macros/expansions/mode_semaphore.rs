#[zk_locked("printers", mode = semaphore(3))]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
