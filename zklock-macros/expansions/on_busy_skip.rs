#[zk_locked("reports/nightly", try_once, on_busy = skip)]
async fn nightly_report() {
    write_report().await;
}
