//! Faults as values: which requests they affect, and how.

use super::request::{Op, Request};
use crate::coordinator::request_error::RequestError;

/// A fault that affects chosen requests of one session.
///
/// By default it affects the next request. [`on`](Fault::on), [`path`](Fault::path) and
/// [`skip`](Fault::skip) choose other requests, and [`times`](Fault::times) makes it affect more
/// than one. Requests are checked in the order in which they reach the server.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let store = zklock::Embedded::new();
/// # let session = zklock::Session::embedded_builder(&store).open()?;
/// use zklock::testing::{Fault, Op};
///
/// // The reply to the second create request below `/zklock/orders` is lost.
/// let fault = Fault::lose_reply().on(Op::Create).path("/zklock/orders/").skip(1);
/// store.faults(store.sessions()[0]).inject(fault);
/// let mutex = session.mutex("orders")?;
/// for _ in 0..2 {
///     assert!(mutex.acquire().await?.is_valid()); // The node is found again by its name.
/// }
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    effect: Effect,
    op: Option<Op>,
    path: Option<String>,
    skip: u64,
    times: u64,
}

/// What happens to an affected request.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Refuse(RequestError),
    LoseRequest,
    LoseReply,
    ForgetReply,
    CutBefore,
    CutAfter,
    Expire,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Fault { effect, op: None, path: None, skip: 0, times: 1 }
    }

    /// The server replies with `error`, and nothing is applied.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::ErrorKind;
    /// use zklock::testing::{Fault, Op};
    /// use zklock::driver::RequestError;
    ///
    /// let fault = Fault::refuse(RequestError::NoAuth).on(Op::Create);
    /// store.faults(store.sessions()[0]).inject(fault);
    /// let refused = session.mutex("orders")?.acquire().await;
    /// assert!(refused.is_err_and(|error| error.kind() == ErrorKind::Unauthorized));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn refuse(error: RequestError) -> Self {
        Fault::new(Effect::Refuse(error))
    }

    /// The request is not applied, and fails with a lost connection. The connection stays up.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    ///
    /// store.faults(store.sessions()[0]).inject(Fault::lose_request().on(Op::Create));
    /// assert!(session.mutex("orders")?.acquire().await?.is_valid()); // Sent again.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lose_request() -> Self {
        Fault::new(Effect::LoseRequest)
    }

    /// The request is applied, and fails with a lost connection. The connection stays up.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    ///
    /// let mutex = session.mutex("orders")?;
    /// store.faults(store.sessions()[0]).inject(Fault::lose_reply().on(Op::Create).path("-lock-"));
    /// let _guard = mutex.acquire().await?;
    /// assert_eq!(mutex.site().contenders().await?.len(), 1); // No second node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lose_reply() -> Self {
        Fault::new(Effect::LoseReply)
    }

    /// The request is applied and never answered. The connection stays up, and later requests are
    /// answered.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// use std::time::Duration;
    /// use zklock::testing::{Fault, Op};
    ///
    /// let timeout = Duration::from_millis(20);
    /// let session = zklock::Session::embedded_builder(&store).session_timeout(timeout).open()?;
    /// let mutex = session.mutex("orders")?;
    /// store.faults(store.sessions()[0]).inject(Fault::forget_reply().on(Op::Create));
    /// assert!(mutex.acquire().await?.is_valid()); // The request is sent again.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn forget_reply() -> Self {
        Fault::new(Effect::ForgetReply)
    }

    /// The connection breaks before the request is applied. The request fails with a lost
    /// connection, and later ones wait until [`Faults::reconnect`](super::Faults::reconnect).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::Duration;
    /// use zklock::testing::Fault;
    ///
    /// store.faults(store.sessions()[0]).inject(Fault::cut_before());
    /// let outcome = session.mutex("orders")?.acquire_timeout(Duration::from_millis(20)).await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn cut_before() -> Self {
        Fault::new(Effect::CutBefore)
    }

    /// The connection breaks after the request was applied, and before its reply.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::Duration;
    /// use zklock::testing::{Fault, Op};
    ///
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.inject(Fault::cut_after().on(Op::Create).path("-lock-"));
    /// let mutex = session.mutex("orders")?;
    /// assert!(mutex.acquire_timeout(Duration::from_millis(20)).await.is_err());
    /// faults.reconnect();
    /// assert!(mutex.acquire().await?.is_valid()); // The node of the first is deleted.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn cut_after() -> Self {
        Fault::new(Effect::CutAfter)
    }

    /// The session expires before the request is applied.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    ///
    /// store.faults(store.sessions()[0]).inject(Fault::expire().on(Op::Create));
    /// assert!(session.mutex("orders")?.acquire().await?.is_valid()); // In the next session.
    /// assert_eq!(session.zookeeper_session().map(|one| one.number), Some(2));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn expire() -> Self {
        Fault::new(Effect::Expire)
    }

    /// Affects only requests of one kind.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    ///
    /// store.faults(store.sessions()[0]).inject(Fault::lose_reply().on(Op::Delete));
    /// session.mutex("orders")?.acquire().await?.release().await?; // The delete is repeated.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Affects only requests whose path contains `part`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::Fault;
    /// use zklock::driver::RequestError;
    ///
    /// let refused = Fault::refuse(RequestError::NoAuth).path("/zklock/secret").times(u64::MAX);
    /// store.faults(store.sessions()[0]).inject(refused);
    /// assert!(session.mutex("secret")?.acquire().await.is_err());
    /// assert!(session.mutex("orders")?.acquire().await.is_ok());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn path(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Lets this number of matching requests pass first.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    /// use zklock::driver::RequestError;
    ///
    /// let second = Fault::refuse(RequestError::NoAuth).on(Op::Delete).skip(1);
    /// store.faults(store.sessions()[0]).inject(second);
    /// let mutex = session.mutex("orders")?;
    /// assert!(mutex.acquire().await?.release().await.is_ok());
    /// assert!(mutex.acquire().await?.release().await.is_err());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Affects this number of requests; `u64::MAX` means all.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    /// use zklock::driver::RequestError;
    ///
    /// let twice = Fault::refuse(RequestError::NoAuth).on(Op::Create).times(2);
    /// store.faults(store.sessions()[0]).inject(twice);
    /// let mutex = session.mutex("orders")?;
    /// assert!(mutex.acquire().await.is_err() && mutex.acquire().await.is_err());
    /// assert!(mutex.acquire().await.is_ok());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, request: &Request) -> bool {
        self.op.is_none_or(|op| op == request.op())
            && self
                .path
                .as_deref()
                .is_none_or(|part| request.paths().iter().any(|path| path.contains(part)))
    }
}

/// A request that reached the server, or was lost on its way.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let store = zklock::Embedded::new();
/// # let session = zklock::Session::embedded_builder(&store).open()?;
/// use zklock::testing::Op;
///
/// store.record();
/// drop(session.mutex("orders")?.acquire().await?);
/// let log = store.recorded();
/// assert!(log.iter().any(|one| one.op == Op::Delete && one.path.starts_with("/zklock/orders/")));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// The session that sent it.
    pub session: i64,
    /// The kind of the request.
    pub op: Op,
    /// Its path; for a `multi`, the path of the first operation.
    pub path: String,
}

/// The effect of a session's faults on this request: of the first that matches and has no request left to skip.
pub(super) fn strike(faults: &mut Vec<Fault>, request: &Request) -> Option<Effect> {
    let mut effect = None;
    for fault in faults.iter_mut() {
        if !fault.matches(request) {
            continue;
        }
        if fault.skip > 0 {
            fault.skip -= 1;
        } else if fault.times > 0 && effect.is_none() {
            effect = Some(fault.effect.clone());
            if fault.times != u64::MAX {
                fault.times -= 1;
            }
        }
    }
    faults.retain(|fault| fault.times > 0);
    effect
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_chosen_requests_only() {
        let get = |path: &str| Request::Get { path: path.into(), watch: false };
        let mut faults = vec![Fault::lose_reply().on(Op::Get).path("b").skip(1).times(2)];
        let mut is_struck = |request: Request| strike(&mut faults, &request).is_some();
        let struck = ["/b", "/a", "/b", "/b", "/b"].map(|path| is_struck(get(path)));
        assert_eq!(struck, [false, false, true, true, false]);
        assert!(!is_struck(Request::Sync { path: "/b".into() }));
    }
}
