#[zk_locked("orders/{id}")]
fn ship(&self, id: u64) -> Pin<Box<dyn Future<Output = Result<(), ApiError>> + Send + '_>> {
    let carrier = self.carrier();
    Box::pin(async move { carrier.ship(id).await })
}
