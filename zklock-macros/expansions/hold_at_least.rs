#[zk_locked("reports/nightly", try_once, on_busy = skip, hold_at_least = "30s")]
async fn nightly_report() {
    write_report().await;
}
