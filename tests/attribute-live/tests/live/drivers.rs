//! Layouts other than the session's.

use std::sync::Arc;

use zklock::driver::LockDriver;
use zklock::layout::{Kazoo, Numbered};
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockError, current, zk_locked};

fn node() -> String {
    current().view().map(|view| view.node_path().to_owned()).unwrap_or_default()
}

#[zk_locked("kazoo", driver = Kazoo::default())]
async fn kazoo() -> Result<String, LockError> {
    Ok(node())
}

#[zk_locked("kazoo/rw", mode = read, driver = Kazoo::default())]
fn kazoo_reads() -> Result<String, LockError> {
    Ok(node())
}

#[zk_locked("kazoo/rw", mode = write, driver = Kazoo::default())]
async fn kazoo_writes() -> Result<String, LockError> {
    Ok(node())
}

#[zk_locked("accounts", key = a, key = b, driver = Numbered::dlock())]
async fn documents(a: u8, b: u8) -> Result<Vec<String>, LockError> {
    assert_eq!(current().view().unwrap().fencing_tokens().len(), 2);
    Ok(vec![node()])
}

#[tokio::test]
async fn a_layout_goes_with_each_mode_and_with_several_keys() {
    let locks = TestLocks::install();
    assert!(kazoo().await.unwrap().contains("__lock__0000000000"));
    assert!(kazoo_reads().unwrap().contains("__rlock__"));
    assert!(kazoo_writes().await.unwrap().contains("__lock__"));
    assert!(documents(1, 2).await.unwrap()[0].starts_with("/zklock/accounts/2/sub_"));
    assert_eq!(locks.taken(), ["kazoo", "kazoo/rw", "kazoo/rw", "accounts/1", "accounts/2"]);
}

#[zk_locked("documents", mode = write, driver = Numbered::lock())]
async fn written() -> Result<(), LockError> {
    unreachable!("the layout has no writers")
}

#[tokio::test]
async fn a_mode_that_the_layout_has_not_is_refused_at_once() {
    let locks = TestLocks::install();
    let error = written().await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Unsupported, Some("documents")));
    assert!(error.is_permanent());
    assert!(locks.taken().is_empty());
}

#[zk_locked("mixed")]
async fn outer() -> Result<(), LockError> {
    another().await
}

#[zk_locked("mixed", driver = Numbered::dlock(), try_once)]
async fn another() -> Result<(), LockError> {
    unreachable!("others who use that layout are not excluded")
}

#[tokio::test]
async fn another_layout_of_a_lock_in_use_is_refused_also_inside_it() {
    let locks = TestLocks::install();
    assert_eq!(outer().await.unwrap_err().kind(), ErrorKind::InvalidOption);
    let held = locks.session().mutex("mixed").unwrap().acquire().await.unwrap();
    assert_eq!(another().await.unwrap_err().kind(), ErrorKind::InvalidOption);
    held.release().await.unwrap();
}

struct Service {
    layout: Arc<dyn LockDriver>,
}

impl Service {
    #[zk_locked("chosen", driver = self.layout.clone())]
    async fn run(&self) -> Result<String, LockError> {
        Ok(node())
    }
}

#[tokio::test]
async fn a_layout_may_be_chosen_when_the_program_starts() {
    let _locks = TestLocks::install();
    let service = Service { layout: Arc::new(Numbered::new("ticket-")) };
    assert!(service.run().await.unwrap().starts_with("/zklock/chosen/ticket-"));
}
