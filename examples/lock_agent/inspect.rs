//! Looking at a lock, and asking its holder to release it.

use serde_json::{Value, json};
use zklock::Site;

use crate::protocol::Refusal;

/// The contenders, in the order of the queue.
pub(crate) async fn contenders(site: &Site) -> Result<Value, Refusal> {
    let queue = site.contenders().await?;
    let show = |one: &zklock::ContenderInfo| {
        json!({
            "node": one.node,
            "mode": one.mode.to_string(),
            "owner": one.owner,
            "holder": one.holds,
        })
    };
    Ok(json!({ "contenders": queue.iter().map(show).collect::<Vec<_>>() }))
}

/// Asks the holder to release the lock.
pub(crate) async fn revoke(site: &Site) -> Result<Value, Refusal> {
    Ok(json!({ "asked": site.revoke().await? }))
}
