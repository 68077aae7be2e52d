//! Options: literals, constants and expressions.

use std::time::Duration;

use zklock::{Session, testing::TestLocks, zk_locked};

use crate::support::{Locked, acquired, wait};

const WAIT: Duration = Duration::from_millis(300);

struct Config {
    wait: Duration,
    tries: u32,
}

impl Config {
    const fn tries(&self) -> u32 {
        self.tries
    }
}

#[zk_locked("all", timeout = "1m 2s", retries = 2, session = "orders", crate = ::zklock)]
fn all() -> Locked<()> {
    Ok(())
}

#[zk_locked("constant", retries = 0x3u32, timeout = WAIT,)]
fn constant() -> Locked<()> {
    Ok(())
}

#[zk_locked("from argument", timeout = config.wait * 2, retries = config.tries(), crate = "zklock")]
async fn from_argument(config: Config) -> Locked<Config> {
    Ok(config)
}

macro_rules! with {
    ($name:expr, $timeout:expr, $retries:literal) => {
        #[zk_locked($name, timeout = $timeout, retries = $retries)]
        fn by_macro() -> Locked<()> {
            Ok(())
        }
    };
}

with!("macro", "5ms", 4);

#[zk_locked("flags", try_once, fair, reentrant = false)]
fn flags() -> Locked<()> {
    Ok(())
}

#[zk_locked("flags of", try_once = !once, fair = !once, reentrant = config.tries() > 1, linger = config.wait)]
async fn flags_of(once: bool, config: Config) -> Locked<Config> {
    Ok(config)
}

#[zk_locked("lingering", linger = "1500ms", on_lost = finish)]
async fn lingering() -> Locked<()> {
    Ok(())
}

#[zk_locked("job", hold_at_least = "30s")]
fn job() -> Locked<()> {
    Ok(())
}

#[zk_locked("job of", hold_at_least = config.wait * 100, try_once)]
async fn job_of(config: Config) -> Locked<Config> {
    Ok(config)
}

#[zk_locked("finishing", on_lost = finish, on_busy = error)]
fn finishing() -> Locked<()> {
    Ok(())
}

#[zk_locked("heeding", on_revoked = cancel, on_lost = finish)]
async fn heeding() -> Locked<()> {
    Ok(())
}

#[zk_locked("stubborn", on_revoked = ignore, on_lost = cancel)]
async fn stubborn() -> Locked<()> {
    Ok(())
}

#[zk_locked("heeding_sync", on_revoked = cancel)]
fn heeding_sync() -> Locked<()> {
    Ok(())
}

#[zk_locked("careful", stop_at = suspect)]
async fn careful() -> Locked<()> {
    Ok(())
}

#[zk_locked("patient", stop_at = lost)]
fn patient() -> Locked<()> {
    Ok(())
}

#[zk_locked("laid out", driver = zklock::layout::Kazoo::default(), mode = read)]
async fn laid_out() -> Locked<()> {
    Ok(())
}

#[zk_locked("laid out by", driver = layout.clone())]
fn laid_out_by(layout: &zklock::layout::Kazoo) -> Locked<()> {
    Ok(())
}

#[zk_locked("chosen", driver = layout.clone())]
fn chosen(layout: std::sync::Arc<dyn zklock::driver::LockDriver>) -> crate::futures::Boxed<()> {
    Box::pin(async move { Ok(()) })
}

const FAIR: zklock::LockOptions = zklock::LockOptions::new().fair(true);

#[zk_locked("with options", retries = 3, options = FAIR, lock_delay = "15s")]
async fn with_options() -> Locked<()> {
    Ok(())
}

#[zk_locked("with options of", options = options, lock_delay = config.wait, mode = read)]
fn with_options_of(options: &zklock::LockOptions, config: &Config) -> Locked<()> {
    Ok(())
}

#[test]
fn options_and_the_delay_reach_the_lock() {
    wait(with_options()).unwrap();
    with_options_of(&FAIR, &Config { wait: WAIT, tries: 1 }).unwrap();
    let expected = [
        "with options retries: 3, fair: true, lock_delay: 15s",
        "with options of Read fair: true, lock_delay: 300ms",
    ];
    assert_eq!(acquired(), expected);
}

#[zk_locked("labelled", label = "request {order.0} of {who} {{}}")]
async fn labelled(order: (u32, String), who: &str) -> Locked<String> {
    Ok(order.1 + who)
}

#[zk_locked("labelled by", label = format!("{}/{id}", config.tries))]
fn labelled_by(id: u32, config: &Config) -> Locked<u32> {
    Ok(id)
}

#[zk_locked("labelled plainly", label = "nightly", hold_at_most = "10m")]
fn labelled_plainly() -> Locked<()> {
    Ok(())
}

#[test]
fn the_label_is_filled_in_before_the_body_takes_the_parameters() {
    wait(labelled((7, String::new()), "ann")).unwrap();
    labelled_by(4, &Config { wait: WAIT, tries: 3 }).unwrap();
    labelled_plainly().unwrap();
    let expected = [
        r#"labelled label: "request 7 of ann {}""#,
        r#"labelled by label: "3/4""#,
        r#"labelled plainly hold_at_most: 600s, label: "nightly""#,
    ];
    assert_eq!(acquired(), expected);
}

#[zk_locked("slow", warn_waiting = "10s", warn_holding = config.wait)]
fn slow(config: &Config) -> Locked<()> {
    Ok(())
}

#[test]
fn long_waits_and_holds_of_one_function_are_logged() {
    slow(&Config { wait: Duration::from_secs(60), tries: 3 }).unwrap();
    assert_eq!(acquired(), ["slow warn_waiting: 10s, warn_holding: 60s"]);
}

const SHOP: &str = "shop";

#[zk_locked("orders", namespace = "eu/shop", key = request.0)]
async fn keyed(request: (String, u32)) -> Locked<(String, u32)> {
    Ok(request)
}

#[zk_locked("orders/{id}", namespace = SHOP, key = id + 1)]
fn namespaced(id: u32) -> Locked<()> {
    Ok(())
}

#[zk_locked("orders", namespace = prefix, key = format!("{a}/{b}", b = pair.1))]
async fn by_parameters(prefix: String, a: u32, pair: (u32, u32)) -> Locked<String> {
    Ok(format!("{prefix}{a}{}", pair.0))
}

struct Pair {
    left: String,
    _right: String,
}

#[zk_locked("{left}", key = left.len())]
async fn taken_apart(Pair { left, .. }: Pair) -> Locked<String> {
    Ok(left)
}

#[zk_locked("tail", key = request.0, timeout = wait)]
fn tail(request: (String, u32), wait: Duration) -> crate::futures::Boxed<u32> {
    Box::pin(async move { Ok(request.1) })
}

struct Service {
    session: Session,
    tenant: String,
}

impl Service {
    #[zk_locked("own", session = self.session)]
    async fn own(&self) -> Locked<()> {
        Ok(())
    }

    #[zk_locked("named", session = self.tenant)]
    fn named(self) -> Locked<String> {
        Ok(self.tenant)
    }

    #[zk_locked("formatted", session = format!("tenant-{}", self.tenant))]
    async fn formatted(self: std::sync::Arc<Self>) -> Locked<usize> {
        Ok(self.tenant.len())
    }

    #[zk_locked("shared", session = session)]
    async fn shared(session: std::sync::Arc<Session>) -> Locked<()> {
        drop(session);
        Ok(())
    }

    #[zk_locked("constant", session = SHOP)]
    async fn constant() -> Locked<()> {
        Ok(())
    }
}

#[async_trait::async_trait]
trait Booking {
    #[zk_locked("book", key = item, session = self.tenant(), condition = !item.is_empty())]
    async fn book(&self, item: String) -> Locked<usize> {
        Ok(item.len())
    }

    fn tenant(&self) -> &str;
}

impl Booking for Service {
    fn tenant(&self) -> &str {
        &self.tenant
    }
}

#[test]
fn choices_reach_the_lock() {
    flags().unwrap();
    wait(flags_of(true, Config { wait: WAIT, tries: 1 })).unwrap();
    wait(lingering()).unwrap();
    job().unwrap();
    wait(job_of(Config { wait: WAIT, tries: 1 })).unwrap();
    finishing().unwrap();
    let expected = [
        "flags reentrant: false, fair: true once",
        "flags of reentrant: false, linger: 300ms, fair: false",
        "lingering linger: 1.5s, on_lost: Finish",
        "job hold_at_least: 30s",
        "job of hold_at_least: 30s once",
        "finishing",
    ];
    assert_eq!(acquired(), expected);
}

#[test]
fn what_ends_a_body_and_the_layout_reach_the_lock() {
    let kazoo = zklock::layout::Kazoo::default;
    wait(heeding()).unwrap();
    wait(stubborn()).unwrap();
    heeding_sync().unwrap();
    wait(careful()).unwrap();
    patient().unwrap();
    wait(laid_out()).unwrap();
    laid_out_by(&kazoo()).unwrap();
    wait(chosen(std::sync::Arc::new(kazoo()))).unwrap();
    let expected = [
        "heeding on_lost: Finish, on_revoked: Cancel",
        "stubborn on_lost: Cancel, on_revoked: Ignore",
        "heeding_sync on_revoked: Cancel",
        "careful stop_at: Suspect",
        "patient stop_at: Lost",
        "laid out Read Some(Kazoo { identifier: None })",
        "laid out by Some(Kazoo { identifier: None })",
        "chosen Some(Kazoo { identifier: None })",
    ];
    assert_eq!(acquired(), expected);
}

#[test]
fn names_are_put_together() {
    wait(keyed(("a/b".to_owned(), 1))).unwrap();
    namespaced(7).unwrap();
    wait(by_parameters("p".to_owned(), 1, (2, 3))).unwrap();
    wait(taken_apart(Pair { left: "l".to_owned(), _right: String::new() })).unwrap();
    wait(tail(("k".to_owned(), 1), WAIT)).unwrap();
    let expected = [
        "eu/shop/orders/a~2Fb",
        "shop/orders/7/8",
        "p/orders/1~2F3",
        "l/1",
        "tail/k timeout: 300ms",
    ];
    assert_eq!(acquired(), expected);
}

#[test]
fn a_session_is_a_name_or_a_session() {
    // What is asked of the default session is busy.
    let locks = TestLocks::install().and_session("t").and_session("tenant-t").and_session("shop");
    let names = ["own", "named", "formatted", "shared", "constant", "book/x"];
    let _held = names.map(|name| locks.hold(name).unwrap());
    let own = Session::embedded();
    let service = || Service { session: own.clone(), tenant: "t".to_owned() };
    wait(service().own()).unwrap();
    service().named().unwrap();
    wait(std::sync::Arc::new(service()).formatted()).unwrap();
    wait(Service::shared(std::sync::Arc::new(own.clone()))).unwrap();
    wait(Service::constant()).unwrap();
    wait(service().book("x".to_owned())).unwrap();
    wait(service().book(String::new())).unwrap();
    assert_eq!(acquired(), names);
}

#[test]
fn options_reach_the_lock() {
    let _locks = TestLocks::install().and_session("orders");
    all().unwrap();
    constant().unwrap();
    wait(from_argument(Config { wait: WAIT, tries: 9 })).unwrap();
    by_macro().unwrap();
    let expected = [
        "all timeout: 62s, retries: 2",
        "constant timeout: 300ms, retries: 3",
        "from argument timeout: 600ms, retries: 9",
        "macro timeout: 5ms, retries: 4",
    ];
    assert_eq!(acquired(), expected);
}
