#[zk_locked("orders/number")]
fn next_number(last: &mut u64) -> Result<u64, ApiError> {
    *last += 1;
    Ok(*last)
}
