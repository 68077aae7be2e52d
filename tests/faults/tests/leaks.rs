//! After locks of every kind at full speed, given up, timed out, dropped and released, nothing is
//! left: no watch, node or session on the server, no thread, task or open file here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::time::Duration;

use zklock_fault_tests::soak::soak;
use zklock_test_support::{RawClient, ZooKeeper, is_long};

/// The paths of all nodes below one, to say which are left.
fn paths(raw: &mut RawClient, path: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    for child in raw.children(path).unwrap_or_default() {
        all.extend(paths(raw, &format!("{}/{child}", path.trim_end_matches('/'))));
    }
    all
}

/// What this process has: where its open files lead, and the names of its threads.
fn kept() -> String {
    let entries = |folder: &str| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    // One that has just ended has no name any more.
    let files = entries("/proc/self/fd").into_iter().filter_map(|file| fs::read_link(file).ok());
    let threads = entries("/proc/self/task").into_iter();
    let threads = threads.filter_map(|task| fs::read_to_string(task.join("comm")).ok());
    let threads: Vec<_> = threads.map(|name| name.trim_end().to_owned()).collect();
    format!("files: {:#?}\nthreads: {threads:#?}", files.collect::<Vec<_>>())
}

// The only test in its process: it counts the threads of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_locks_at_full_speed() {
    let server = ZooKeeper::start();
    let time = Duration::from_secs(if is_long() { 60 } else { 5 });
    let samples = soak(&server, time, 10, |sample| println!("{sample}")).await.unwrap();
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    assert!(last.acquires > 100, "{last}");
    assert!(samples.iter().any(|sample| sample.watches > 0), "it looks at what it counts");
    let watches = || server.four_letter("wchp").unwrap();
    assert_eq!((last.watches, last.sessions), (0, 0), "{last}\n{}{}", watches(), server.dump());
    // Every task of a session runs on that session's thread.
    assert!(
        last.threads <= first.threads && last.files <= first.files,
        "{first}\n{last}\n{}",
        kept()
    );
    if last.nodes > first.nodes {
        let mut raw = RawClient::connect(&server.addr(), Duration::from_secs(10)).unwrap();
        panic!("{first}\n{last}\nleft: {:#?}", paths(&mut raw, "/"));
    }
    let (early, late) = (samples[samples.len() / 2], samples[samples.len() - 2]);
    assert!(late.memory_kib < early.memory_kib + 16 * 1024, "{early}\n{late}");
}
