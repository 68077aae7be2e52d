//! Options: literals, constants and expressions.

use std::time::Duration;

use zklock::zk_locked;

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

#[test]
fn options_reach_the_lock() {
    all().unwrap();
    constant().unwrap();
    wait(from_argument(Config { wait: WAIT, tries: 9 })).unwrap();
    by_macro().unwrap();
    let expected = [
        "all timeout=62s retries=2 session=orders",
        "constant timeout=300ms retries=3",
        "from argument timeout=600ms retries=9",
        "macro timeout=5ms retries=4",
    ];
    assert_eq!(acquired(), expected);
}
