/// Creates an order.
#[zk_locked("{self.tenant}/orders")]
#[must_use]
pub(crate) async fn create<T>(
    mut self,
    Json(order): Json<Order>,
    Pair { left, .. }: Pair,
    mut note: T,
    _: Permit,
    #[cfg(feature = "audit")] _audit: Audit,
) -> Result<impl Iterator<Item = T>, ApiError>
where
    T: Clone,
{
    #![allow(unused)]
    self.orders.push(order);
    Ok(iter::repeat(note))
}
