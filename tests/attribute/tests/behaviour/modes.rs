//! Which kind of lock, and several at once.

use std::{cell::Cell, rc::Rc};

use zklock::{
    ErrorKind,
    events::{self, Outcome},
    zk_locked,
};

use crate::support::{Locked, acquired, cancel_at, pause, wait};

#[zk_locked("stock", mode = mutex)]
async fn exclusive() -> Locked<()> {
    pause().await;
    Ok(())
}

#[zk_locked("stock", mode = read)]
async fn reading() -> Locked<()> {
    pause().await;
    Ok(())
}

#[zk_locked("stock", mode = write, try_once)]
fn writing() -> Locked<()> {
    Ok(())
}

#[zk_locked("printers", mode = semaphore(3))]
async fn one_of_three() -> Locked<()> {
    pause().await;
    Ok(())
}

#[zk_locked("printers", mode = semaphore(0x10u32), on_busy = skip)]
fn one_of_sixteen() {}

#[zk_locked("printers", mode = semaphore(u32::try_from(printers.len()).unwrap_or(1)))]
async fn one_of_all(printers: Vec<String>) -> Locked<Vec<String>> {
    pause().await;
    Ok(printers)
}

macro_rules! guarded {
    ($name:ident, $permits:expr) => {
        #[zk_locked("macro", mode = semaphore($permits))]
        fn $name() -> Locked<()> {
            Ok(())
        }
    };
}

guarded!(by_macro, 5);

#[test]
fn modes_reach_the_lock() {
    wait(exclusive()).unwrap();
    wait(reading()).unwrap();
    writing().unwrap();
    wait(one_of_three()).unwrap();
    one_of_sixteen();
    wait(one_of_all(vec![String::new(); 7])).unwrap();
    by_macro().unwrap();
    let expected = [
        "stock",
        "stock Read",
        "stock Write once",
        "printers Semaphore { limit: 3 }",
        "printers Semaphore { limit: 16 }",
        "printers Semaphore { limit: 7 }",
        "macro Semaphore { limit: 5 }",
    ];
    assert_eq!(acquired(), expected);
}

struct Transfer {
    from: String,
    to: String,
}

#[zk_locked("accounts", key = transfer.from, key = transfer.to)]
async fn transfer(transfer: Transfer) -> Locked<usize> {
    pause().await;
    Ok(transfer.from.len() + transfer.to.len())
}

#[zk_locked("{shop}/accounts", namespace = "bank", key = a, key = b + 1, key = c.get(), mode = read)]
fn three(shop: &str, a: &str, b: u8, c: Cell<u8>) -> Locked<String> {
    Ok(format!("{shop}{a}{b}{}", c.get()))
}

#[zk_locked("tail", key = a, key = b)]
fn tail(a: u32, b: u32) -> crate::futures::Boxed<u32> {
    Box::pin(async move { Ok(a + b) })
}

#[async_trait::async_trait]
trait Bank {
    #[zk_locked("accounts", key = from, key = self.own(), condition = !from.is_empty())]
    async fn pay(&self, from: String) -> Locked<usize> {
        Ok(from.len())
    }

    fn own(&self) -> u8;
}

impl Bank for () {
    fn own(&self) -> u8 {
        7
    }
}

#[test]
fn each_key_is_a_lock() {
    let both = |from: &str, to: &str| Transfer { from: from.to_owned(), to: to.to_owned() };
    wait(transfer(both("7", "a/b"))).unwrap();
    three("eu", "x", 1, Cell::new(9)).unwrap();
    wait(tail(1, 2)).unwrap();
    wait(().pay("3".to_owned())).unwrap();
    wait(().pay(String::new())).unwrap();
    let expected = [
        "accounts/7 + accounts/a~2Fb",
        "bank/eu/accounts/x + bank/eu/accounts/2 + bank/eu/accounts/9 Read",
        "tail/1 + tail/2",
        "accounts/3 + accounts/7",
    ];
    assert_eq!(acquired(), expected);
    let error = wait(transfer(both("7", ""))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    events::next(Outcome::Busy);
    assert!(wait(transfer(both("7", "8"))).unwrap_err().is_busy());
}

/// Counts how often it is asked.
struct Asked(Rc<Cell<u32>>);

impl Asked {
    fn name(&self) -> &'static str {
        self.0.set(self.0.get() + 1);
        "shop"
    }
}

#[zk_locked("accounts", namespace = asked.name(), key = a, key = b)]
fn asked_for(asked: &Asked, a: u8, b: u8) -> Locked<()> {
    Ok(())
}

#[test]
fn what_several_names_have_in_common_is_evaluated_once() {
    let asked = Asked(Rc::default());
    asked_for(&asked, 1, 2).unwrap();
    assert_eq!(acquired(), ["shop/accounts/1 + shop/accounts/2"]);
    assert_eq!(asked.0.get(), 1);
}

struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        events::record(self.0);
    }
}

impl std::fmt::Display for Noisy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[zk_locked("accounts", key = a, key = b)]
async fn owning(a: Noisy, b: Noisy) -> Locked<()> {
    pause().await;
    Ok(())
}

#[test]
fn keys_drop_before_the_release() {
    wait(owning(Noisy("a"), Noisy("b"))).unwrap();
    assert_eq!(events::take(), ["wait", "acquire accounts/a + accounts/b", "b", "a", "release"]);
    assert!(!cancel_at(1, owning(Noisy("a"), Noisy("b"))));
    assert_eq!(events::take(), ["wait", "acquire accounts/a + accounts/b", "b", "a", "release"]);
}
