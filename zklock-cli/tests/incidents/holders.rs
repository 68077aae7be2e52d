//! Holders that do not release.

use crate::scene::Scene;

#[test]
fn a_stopped_holder_is_silent() {
    let scene = Scene::new("stopped");
    // It is silent after a third of it, and gone after all of it: what is advised is done in between.
    let holder = scene.holder("36s", &["a"]);
    let waiter = scene.waiter(&["a"]);
    assert_eq!(scene.why("a")["problems"][0]["code"], "held");
    holder.stop();
    let helps = scene.cause("a", "silent");
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

#[test]
fn a_crashed_holder_is_gone() {
    let scene = Scene::new("crashed");
    let holder = scene.holder("30s", &["a"]);
    let waiter = scene.waiter(&["a"]);
    holder.crash();
    let helps = scene.cause("a", "gone");
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

/// Readers are served in the order of the queue, too: behind a writer they wait for a reader before it.
#[test]
fn a_slow_reader_is_in_the_way_of_a_writer_and_of_all_behind_it() {
    let scene = Scene::new("reader");
    let slow = scene.holder("10s", &["a", "--mode", "read", "--label", "export", "--revocable"]);
    let writer = scene.waiter(&["a", "--mode", "write"]);
    let reader = scene.waiter(&["a", "--mode", "read"]);
    let helps = scene.cause("a", "reader");
    let why = scene.why("a");
    // The reader, and not the writer.
    let [node, czxid] = ["node", "czxid"].map(|field| why["holders"][0][field].as_str().unwrap());
    assert_eq!(helps[1], format!("zklock break a --node {node} --czxid {czxid}"));
    let problem = &why["problems"][0];
    let says = problem["says"].as_str().unwrap().to_owned();
    assert!(says.contains("and one more waits behind it") && says.contains("\"export\""), "{says}");
    scene.follow(&helps[0]);
    assert_eq!((writer.code(), reader.code()), (0, 0));
    assert_eq!(slow.code(), 128 + 15);
}
