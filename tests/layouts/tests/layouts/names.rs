//! One lock by many ids, in three languages.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};

use zklock::{Mutex, Session, lock_name};
use zklock_test_support::ZooKeeper;
use zklock_test_support::peers::{Curator, Kazoo};

/// What Java and Python write as it is.
fn plain_ids() -> BTreeSet<String> {
    let fixed = [
        "0", "00", "007", "-5", "-0", "+1", " 5", "a b", "%2F", "!", "...", ".a", "~", "~4", "~4g",
        "{x}",
    ];
    let mut ids: BTreeSet<String> = fixed.map(str::to_owned).into();
    ids.extend(
        ["größe 4", "订单", "é", "Locks", "lock", "releases", "_c_", "#", "$1"].map(str::to_owned),
    );
    let mut random = (0_u64..).map(|n| RandomState::new().hash_one(n));
    let mut next = move || random.next().unwrap();
    while ids.len() < 886 {
        let (a, b) = (next(), next());
        ids.insert(match a % 4 {
            0 => (b >> (a % 60)).to_string(),
            1 => format!("-{}", b % 100_000),
            2 => format!("{:0width$}", b % 1_000_000, width = 1 + (a % 11) as usize),
            _ => {
                let (high, low) = (format!("{a:016x}"), format!("{b:016x}"));
                format!(
                    "{}-{}-{}-{}-{}",
                    &high[..8],
                    &high[8..12],
                    &high[12..],
                    &low[..4],
                    &low[4..]
                )
            }
        });
    }
    ids
}

/// What cannot be a segment as it is.
const ESCAPED: [&str; 14] = [
    ".",
    "..",
    "a/b",
    "/",
    "0/7",
    "../..",
    "~41",
    "~7E41",
    "a~2Fb",
    "locks",
    "leases",
    "\u{0}",
    "a\nb",
    "\u{1f600}",
];

/// Made of what the rule looks at, in any order.
fn any_ids(plain: &BTreeSet<String>) -> BTreeSet<String> {
    const PARTS: [&str; 12] =
        ["~", "~", "4", "1", "F", "f", "/", ".", "lo", "cks", "é", "\u{1f600}"];
    let mut random = (0_u64..).map(|n| RandomState::new().hash_one(n));
    let mut ids = BTreeSet::new();
    while ids.len() < 100 {
        let bits = random.next().unwrap();
        let part = |at| PARTS[(bits >> (at * 8)) as usize % PARTS.len()];
        let id: String = (0..1 + bits % 6).map(part).collect();
        if !ESCAPED.contains(&id.as_str()) && !plain.contains(&id) {
            ids.insert(id);
        }
    }
    ids
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The locks of all ids, each of which somebody else holds.
async fn held_by_another(session: &Session, ids: &[(bool, String)]) -> Vec<Mutex> {
    let (mut all, root) = (Vec::new(), session.root().as_str());
    for (plain, id) in ids {
        let mutex = session.mutex(lock_name!("orders/{id}")).unwrap();
        let as_it_is = mutex.path() == format!("{root}/orders/{id}");
        assert!(as_it_is || !plain, "{id:?}");
        assert!(!as_it_is || !ESCAPED.contains(&id.as_str()), "{id:?}");
        let error = mutex.try_acquire().await.expect_err(id);
        assert!(error.is_busy(), "{id:?}: {error}");
        all.push(mutex);
    }
    all
}

#[tokio::test]
async fn java_python_and_rust_meet_on_one_path_for_any_id() {
    let (server, above) = (ZooKeeper::shared(), "/any-id");
    let (curator, kazoo) = (Curator::compile(), Kazoo::install());
    let plain = plain_ids();
    let mut ids: Vec<(bool, String)> = any_ids(&plain).into_iter().map(|id| (false, id)).collect();
    ids.extend(ESCAPED.map(|id| (false, id.to_owned())));
    ids.extend(plain.into_iter().map(|id| (true, id)));
    assert_eq!(ids.len(), 1000);
    let line = |(plain, id): &(bool, String)| {
        format!("{} {}\n", if *plain { "plain" } else { "escaped" }, hex(id))
    };
    let file = std::env::temp_dir().join(format!("any-id-{}", std::process::id()));
    fs::write(&file, ids.iter().map(line).collect::<String>()).unwrap();

    // Java holds the locks of all ids, and Python those below another root, whose directories it makes itself.
    let mut java = curator.names(&server.addr(), above, &file);
    let another = "/any-id-of-python";
    let mut python = kazoo.names_as_curator(&server.addr(), another, &file);
    let session = Session::builder(server.addr()).root(above).connect().await.unwrap();
    let theirs = java.line();
    // The others find each of them held.
    let refused = kazoo.names_as_curator(&server.addr(), above, &file);
    let ours = held_by_another(&session, &ids).await;
    let paths: Vec<String> = ours.iter().map(|mutex| hex(mutex.path())).collect();
    let each = |word: &str, paths: &[String]| -> Vec<String> {
        paths.iter().map(|path| format!("{word} {path}")).collect()
    };
    assert_eq!(refused.finish().lines().collect::<Vec<_>>(), each("busy", &paths));
    assert_eq!(theirs.split(' ').collect::<Vec<_>>(), paths);
    let held: Vec<String> = ids.iter().map(|_| python.line()).collect();
    let elsewhere = Session::builder(server.addr()).root(another).connect().await.unwrap();
    let ours_elsewhere = held_by_another(&elsewhere, &ids).await;
    let paths: Vec<String> = ours_elsewhere.iter().map(|mutex| hex(mutex.path())).collect();
    assert_eq!(held, each("held", &paths));
    java.finish();
    python.finish();
    for mutex in ours.iter().chain(&ours_elsewhere) {
        mutex.try_acquire().await.unwrap().release().await.unwrap();
    }
    session.close().await;
    elsewhere.close().await;
    fs::remove_file(file).unwrap();
}
