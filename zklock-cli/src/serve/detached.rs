//! Work that goes on when whoever has asked for it leaves.

/// Does it to the end, also if nobody waits for it any more.
pub(super) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    // A task that panicked has told so itself.
    tokio::spawn(work).await.unwrap_or_else(|_| Err("this server has failed".to_owned()))
}
