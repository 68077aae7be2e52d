#[zk_locked("orders/{id}", session = self.session)]
async fn ship(&self, id: u64) -> Result<(), ApiError> {
    self.carrier.ship(id).await
}
