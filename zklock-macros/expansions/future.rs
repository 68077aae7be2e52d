#[zk_locked("orders/{id}")]
fn ship(id: u64) -> impl Future<Output = Result<(), ApiError>> {
    let carrier = carrier();
    async move { carrier.ship(id).await }
}
