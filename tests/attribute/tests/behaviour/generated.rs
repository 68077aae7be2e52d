//! Code that a careless expansion would break.
#![allow(dead_code)]

use zklock::zk_locked;

use crate::support::{Locked, acquired, wait};

mod shadowed {
    //! Every name that an expansion could rely on means something else here.
    #![allow(non_camel_case_types, unused_macros)]

    pub(super) mod std {}
    pub(super) mod core {}
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Option;
    pub(super) struct Box;
    pub(super) struct Result<T, E>(T, E);

    use crate::support::Locked;
    use zklock::zk_locked;

    #[zk_locked("shadowed-{name}", timeout = "1s")]
    pub(super) async fn guarded(name: u32, call: u32, result: u32) -> Locked<u32> {
        Ok(name + call + result)
    }

    #[zk_locked("shadowed_sync-{name}", timeout = "1s")]
    pub(super) fn guarded_sync(name: u32, call: u32, result: u32) -> Locked<u32> {
        Ok(name + call + result)
    }
}

/// In edition 2021 this warns of every temporary at the end of a block.
#[deny(tail_expr_drop_order, if_let_rescope)]
mod migrating {
    use crate::support::{Locked, pause};
    use zklock::zk_locked;

    #[zk_locked("migrating-{name}")]
    pub(super) async fn guarded(name: String) -> Locked<usize> {
        pause().await;
        let length = name.len();
        Ok(length)
    }

    #[zk_locked("migrating-{name}")]
    pub(super) fn plain(name: String) -> Locked<usize> {
        let length = name.len();
        drop(name);
        Ok(length)
    }
}

#[rustfmt::skip]
mod one_line {
    use crate::support::Locked;
    use zklock::zk_locked;

    #[zk_locked("one line")]
    pub(super) fn plain() -> Locked<u32> { Ok(1) }

    #[zk_locked("one line")]
    pub(super) fn with(value: u32) -> Locked<u32> { Ok(value) }

    #[zk_locked("one line")]
    pub(super) async fn plain_async() -> Locked<u32> { Ok(1) }

    #[zk_locked("one line")]
    pub(super) async fn with_async(value: u32) -> Locked<u32> { Ok(value) }

    #[zk_locked("one line")]
    pub(super) fn tail(value: u32) -> crate::futures::Boxed<u32> { Box::pin(async move { Ok(value) }) }
}

#[zk_locked("no braces")]
fn single(value: u32) -> Locked<u32> {
    Ok(value)
}

#[zk_locked("short names")]
fn short_names(a: u32, b: u32, c: u32, d: u32) -> Locked<u32> {
    Ok(a + b + c + d)
}

#[zk_locked("tail temporaries")]
fn tail_temporary(lock: std::sync::Mutex<Vec<u32>>) -> Locked<usize> {
    Ok(lock.lock().unwrap().len())
}

#[zk_locked("tail temporaries async")]
async fn tail_temporary_async(lock: std::sync::Mutex<Vec<u32>>) -> Locked<usize> {
    Ok(lock.lock().unwrap().len())
}

/// Borrowing a guard to keep it must not look like forgetting it.
#[zk_locked("lock-{guard}")]
fn lock_in_name(guard: std::sync::MutexGuard<'_, String>) -> Locked<usize> {
    Ok(guard.len())
}

#[zk_locked("match")]
fn matches(value: Option<u32>) -> Locked<u32> {
    match value {
        Some(value) => Ok(value),
        None => unreachable!(),
    }
}

#[test]
fn surroundings_do_not_matter() {
    assert_eq!(wait(shadowed::guarded(1, 2, 3)).unwrap(), 6);
    assert_eq!(shadowed::guarded_sync(1, 2, 3).unwrap(), 6);
    let migrated = migrating::plain("x".to_owned()).unwrap();
    assert_eq!(wait(migrating::guarded("x".to_owned())).unwrap(), migrated);
    assert_eq!(one_line::plain().unwrap(), one_line::with(1).unwrap());
    assert_eq!(wait(one_line::plain_async()).unwrap(), wait(one_line::with_async(1)).unwrap());
    assert_eq!(wait(one_line::tail(1)).unwrap(), 1);
    assert_eq!(single(1).unwrap(), 1);
    assert_eq!(short_names(1, 2, 3, 4).unwrap(), 10);
    assert_eq!(tail_temporary(vec![1].into()).unwrap(), 1);
    assert_eq!(wait(tail_temporary_async(vec![1].into())).unwrap(), 1);
    assert_eq!(lock_in_name(std::sync::Mutex::new("x".to_owned()).lock().unwrap()).unwrap(), 1);
    assert_eq!(matches(Some(1)).unwrap(), 1);
    assert_eq!(acquired().len(), 15);
}
