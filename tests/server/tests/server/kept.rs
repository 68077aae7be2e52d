//! What the README and the options promise beside exclusion: on real servers, for locks of every kind.

use std::io::{Write as _, stderr};
use std::process::Command;
use std::time::{Duration, Instant};

use zklock::{ErrorKind, LockOptions};
use zklock_test_support::{Action, Control, CreateMode, Matcher, is_long};

use crate::bed::{Bed, acquiring, soon};
use crate::kinds::{Held, KINDS, Kind, Wait};

const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn more_nodes_than_one_heartbeat_checks_are_all_looked_after() {
    Bed::measured("batches", async |bed| {
        // Two hundred go into one request.
        const COUNT: usize = 850;
        let mut late = Vec::new();
        let proxy = bed.proxy();
        // Each connection has heartbeats of its own.
        let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
        let session = bed.adopt(builder.connect().await.unwrap());
        // Only the heartbeats tell what becomes of a node.
        let deaf = proxy.on(Matcher::notification(), Action::Drop);
        let names: Vec<_> = (0..COUNT).map(|number| format!("l{number}")).collect();
        let mut guards = Vec::new();
        for chunk in names.chunks(50) {
            let chunk: Vec<_> = chunk.iter().map(|name| acquiring(&session, name)).collect();
            for guard in chunk {
                guards.push(guard.await.unwrap());
            }
        }
        let own = session.zookeeper_session().unwrap().id;
        let sessions = bed.server().sessions();
        let own = sessions.iter().find(|session| session.id == own).unwrap();
        assert_eq!(own.ephemerals.len(), COUNT);
        let control = Control::of(bed.server());
        let mut raw = bed.raw();
        // By then each is watched for which there is room: none is read any more, and no event arrives.
        tokio::time::sleep(3 * HEARTBEAT).await;
        for number in (0..COUNT).step_by(COUNT / 10).rev() {
            // At different times between two heartbeats.
            tokio::time::sleep(2 * HEARTBEAT / 5).await;
            let guard = guards.remove(number);
            raw.delete(guard.node_path()).unwrap();
            let start = Instant::now();
            soon("the loss", guard.lost()).await;
            // One request after the other.
            let requests = u32::try_from(COUNT.div_ceil(200)).unwrap();
            late.extend(control.late("deleted among many", start.elapsed(), HEARTBEAT, requests));
        }
        // The others go on for longer than a session lives without heartbeats.
        let start = Instant::now();
        while start.elapsed() < 2 * T {
            assert!(guards.iter().all(|guard| guard.is_valid()));
            tokio::time::sleep(HEARTBEAT / 4).await;
        }
        raw.close().unwrap();
        drop(guards);
        deaf.release();
        bed.end().await;
        late
    })
    .await;
}

/// The guards of which it consists.
fn parts(held: &Held) -> Vec<zklock::Fenced<'_>> {
    match held {
        Held::Mutex(guard) => vec![guard.fenced()],
        Held::Read(guard) => vec![guard.fenced()],
        Held::Write(guard) => vec![guard.fenced()],
        Held::Permit(guard) => vec![guard.fenced()],
        Held::Multi(guard) => guard.members().iter().rev().map(|member| member.fenced()).collect(),
    }
}

#[tokio::test]
async fn a_fenced_write_succeeds_only_while_the_lock_is_held() {
    let bed = Bed::shared("fenced");
    let session = bed.session_of(Duration::from_secs(20)).await;
    let busy = bed.busy(&[&session]).await;
    let mut raw = bed.raw();
    for kind in KINDS {
        let path = bed.path(&format!("data-{}", kind.name()));
        let held = kind.acquire(&session).await;
        if kind == Kind::Exclusive {
            // One node that everybody makes: ZooKeeper cannot tell whose it is.
            let refused = parts(&held)[0].create(&path, b"1").await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
            held.release().await.unwrap();
            continue;
        }
        for fenced in parts(&held) {
            fenced.create(&path, b"1").await.unwrap();
            fenced.set(&path, b"2").await.unwrap();
            assert_eq!(raw.data(&path).unwrap(), b"2");
            fenced.delete(&path).await.unwrap();
            assert!(!raw.exists(&path, false).unwrap());
        }
        raw.create(&path, b"3", CreateMode::Persistent).unwrap();
        // Before anybody has told the holder, and whatever it thinks.
        raw.delete(held.node_path()).unwrap();
        for refused in [
            parts(&held)[0].set(&path, b"4").await,
            parts(&held)[0].delete(&path).await,
            parts(&held)[0].create(&format!("{path}-too"), b"4").await,
        ] {
            assert!(refused.unwrap_err().is_lost(), "{kind:?}");
        }
        assert_eq!(raw.data(&path).unwrap(), b"3", "{kind:?}");
        assert!(!raw.exists(&format!("{path}-too"), false).unwrap(), "{kind:?}");
        drop(held);
        raw.delete(&path).unwrap();
    }
    raw.close().unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_lingering_node_costs_no_request_and_gives_way_at_once() {
    Bed::measured("lingers", async |bed| {
        const LINGER: Duration = Duration::from_secs(3);
        let mut late = Vec::new();
        let proxy = bed.proxy();
        let builder = bed.builder_at(&proxy.addr()).session_timeout(Duration::from_secs(60));
        let (session, other) = (bed.adopt(builder.connect().await.unwrap()), bed.session().await);
        let options = LockOptions::default().linger(LINGER);
        let control = Control::of(bed.server());
        for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
            let take = || async { kind.take(&session, options, Wait::Forever).await.unwrap() };
            let first = take().await;
            let (path, mut token) = (first.node_path().to_owned(), first.token());
            first.release().await.unwrap();
            // One watch tells of somebody behind; after that nothing is asked.
            let mut asked = 0;
            while asked != proxy.requests_total() {
                asked = proxy.requests_total();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let before = proxy.requests_total();
            for _ in 0..20 {
                let held = take().await;
                assert!(held.node_path() == path && held.token() > token, "{kind:?}");
                token = held.token();
                held.release().await.unwrap();
            }
            assert_eq!(proxy.requests_total(), before, "{kind:?}");
            // Who queues up behind gets it at once, and so does who only tries.
            for wait in [Wait::Forever, Wait::Once] {
                let start = Instant::now();
                let taken = kind.rival().take(&other, LockOptions::default(), wait).await.unwrap();
                let what = format!("{kind:?} gives way");
                // The creation, the list, the deletion of the node ahead, and the list without it.
                late.extend(control.late(&what, start.elapsed(), Duration::ZERO, 4));
                taken.release().await.unwrap();
                take().await.release().await.unwrap();
            }
            // And with nobody there it ends in time.
            let start = Instant::now();
            bed.until_nodes(kind.name(), 0).await;
            // One answer to the deletion, one to the list that shows it.
            late.extend(control.late(&format!("{kind:?} lingers"), start.elapsed(), LINGER, 2));
        }
        bed.end().await;
        late
    })
    .await;
}

/// Who waits for it has no node that could be seen behind it.
#[tokio::test]
async fn a_single_node_does_not_linger() {
    Bed::measured("lingers-not", async |bed| {
        const KIND: Kind = Kind::Exclusive;
        // To the list that shows nobody, to the look at the node, and to its deletion.
        const GOES: u32 = 3;
        let (session, other) = (bed.session().await, bed.session().await);
        let options = LockOptions::default().linger(Duration::from_secs(60));
        let (control, mut late) = (Control::of(bed.server()), Vec::new());
        for wait in [Wait::Forever, Wait::Once] {
            let release = async || {
                let held = KIND.take(&session, options, Wait::Forever).await.unwrap();
                held.release().await.unwrap();
                Instant::now()
            };
            let start = release().await;
            let taken = soon("the node", KIND.take(&other, LockOptions::default(), wait)).await;
            // The creation, the look at who is there, the watch, and the creation without it.
            let what = format!("a single node gives way, {wait:?}");
            late.extend(control.late(&what, start.elapsed(), Duration::ZERO, GOES + 4));
            taken.unwrap().release().await.unwrap();
            let start = release().await;
            bed.until_nodes(KIND.name(), 0).await;
            // And the list that shows it.
            let (took, answers) = (start.elapsed(), GOES + 1);
            late.extend(control.late("a single node goes", took, Duration::ZERO, answers));
        }
        bed.end().await;
        late
    })
    .await;
}

#[tokio::test]
async fn a_lane_that_nobody_uses_is_closed() {
    if !is_long() {
        // What macros print is shown only where a test fails.
        writeln!(stderr(), "SKIPPED, a lane that nobody uses: two looks, half a minute each")
            .unwrap();
        return;
    }
    const IDLE: Duration = Duration::from_secs(60);
    let bed = Bed::own();
    let session = bed.session().await;
    // On the first connection, which is not closed. On another one, it would keep that.
    let kept = session.mutex("kept").unwrap().acquire().await.unwrap();
    let busy = bed.busy(&[&session]).await;
    assert!(bed.server().sessions().len() > 1);
    let control = Control::of(bed.server());
    // A lane that was in use at a look is idle from its last use on, not from that look.
    tokio::time::sleep(IDLE * 3 / 4).await;
    let used = Instant::now();
    drop(busy);
    let start = Instant::now();
    // The client of the control is another.
    while bed.server().sessions().len() > 2 {
        assert!(start.elapsed() < 2 * IDLE, "{:?}", bed.server().sessions());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = start.elapsed();
    control.within("idle", took, IDLE);
    // Idle at one look is not enough.
    assert!(used.elapsed() >= IDLE / 2, "{took:?}");
    assert!(kept.is_valid());
    kept.release().await.unwrap();
    drop(control);
    bed.end().await;
}

/// What another test runs in a process of its own.
#[tokio::test]
#[ignore = "another test runs it"]
async fn child_that_connects() {
    let start = Instant::now();
    let error = zklock::Session::from_env().await.unwrap_err();
    println!("\nafter {} ms: {error:#}", start.elapsed().as_millis());
}

#[tokio::test]
async fn the_environment_says_for_how_long_to_connect() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["kept::child_that_connects", "--exact", "--ignored", "--nocapture"])
        .env("ZKLOCK_CONNECT", "127.0.0.1:1")
        .env("ZKLOCK_CONNECT_TIMEOUT", "3s")
        .output()
        .unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    let said = said.lines().find_map(|line| line.strip_prefix("after ")).unwrap();
    let (took, error) = said.split_once(" ms: ").unwrap();
    // The default would be named as well.
    assert!(error.contains("no session within 3s (127.0.0.1:1: "), "{error}");
    assert!(took.parse::<u64>().unwrap() >= 3_000, "{took} ms");
}

/// What the other test runs in a process of its own.
#[tokio::test]
#[ignore = "another test runs it"]
async fn child_of_the_environment() {
    let node = zklock::execute("orders", || async {
        println!("\nheld {}", zklock::current().view().unwrap().node_path());
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    });
    node.await.unwrap();
    let billing = zklock::SessionRegistry::global().session(Some("billing")).unwrap();
    println!("\nbilling {}", billing.root());
    billing.close().await;
}

#[tokio::test]
async fn the_environment_makes_the_session() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    let bed = Bed::own();
    let addr = bed.server().addr();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kept::child_of_the_environment", "--exact", "--ignored", "--nocapture"])
        .env("ZKLOCK_CONNECT", &addr)
        .env("ZKLOCK_ROOT", "/from/environment")
        .env("ZKLOCK_APP", "app-of-the-environment")
        .env("ZKLOCK_SESSION_TIMEOUT", "7s")
        .env("ZKLOCK_BILLING_CONNECT", &addr)
        .env("ZKLOCK_BILLING_ROOT", "/billing")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let path = lines.find_map(|line| line.strip_prefix("held ").map(str::to_owned)).unwrap();
    assert!(path.starts_with("/from/environment/orders/_c_"), "{path}");
    let mut raw = bed.raw();
    let payload = String::from_utf8(raw.data(&path).unwrap()).unwrap();
    assert!(payload.contains(r#""app":"app-of-the-environment""#), "{payload}");
    raw.close().unwrap();
    // The timeouts that the server has agreed to: 7 s and that of our own client.
    let connections = bed.server().four_letter("cons").unwrap();
    assert!(connections.contains("to=7000"), "{connections}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let billing = lines.find_map(|line| line.strip_prefix("billing ").map(str::to_owned));
    assert_eq!(billing.as_deref(), Some("/billing"));
    assert!(child.wait().unwrap().success());
    bed.end().await;
}
