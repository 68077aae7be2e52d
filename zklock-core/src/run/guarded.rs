//! A body under a lock, step by step: acquire, run, release.
//!
//! Nothing in this module depends on the type of the body, so it is compiled once, in this crate,
//! and not for each guarded function.

use std::future::{Future, ready};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Context, Poll};

use crate::base::cancel_policy::CancelPolicy;
use crate::base::error::{Body, LockError};
use crate::guard::context::{Frame, drop_inside, inside_sync};
use crate::guard::view::GuardView;
use crate::lock::any::AnyGuard;
use crate::lock::multi::MultiGuard;
use crate::run::body::{may_begin, over};

/// The guard of a body.
#[derive(Debug)]
pub enum Entered {
    /// One lock.
    One(AnyGuard),
    /// Several locks as one.
    Several(MultiGuard),
}

macro_rules! each {
    ($entered:expr, $guard:ident => $what:expr) => {
        match $entered {
            Entered::One($guard) => $what,
            Entered::Several($guard) => $what,
        }
    };
}

impl Entered {
    pub(crate) fn view(&self) -> &GuardView {
        each!(self, guard => guard)
    }

    /// The scope of the body.
    pub(crate) fn frame(&self) -> Option<Arc<Frame>> {
        match self {
            Entered::One(guard) => Some(guard.frame()),
            Entered::Several(guard) => guard.frame(),
        }
    }

    /// Releases all locks after a body, and waits until they are released. The outcome of the body counts
    /// even if that fails: whatever is the matter was told when it happened.
    pub(crate) fn release(
        self,
        outcome: &Result<(), LockError>,
    ) -> impl Future<Output = ()> + Send + use<> {
        // A body that did not begin has not ended.
        let had_begun = |error: &LockError| error.body() != Some(Body::NotStarted);
        if outcome.as_ref().is_err_and(|error| error.is_revoked() && had_begun(error)) {
            self.view().gave_way();
        }
        async move {
            let _ = each!(self, guard => guard.release().await);
        }
    }
}

/// A pending acquire.
pub type Entering = Pin<Box<dyn Future<Output = Result<Entered, LockError>> + Send>>;

/// The place of a body of any type.
pub trait Place {
    /// Drops the body, with all that it owns.
    fn empty(&mut self);
}

/// A body of any type. Its result is stored where the type is known.
pub trait ErasedBody: Place {
    /// Polls the body.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops its result, which does not count.
    fn discard(&mut self);
}

/// The result of a step.
#[derive(Debug)]
pub enum Step {
    /// The body has returned, its result counts, and the lock is still held. Next the lock is
    /// released; if this is dropped, it is released in the background.
    Returned,
    /// The lock is released. The result counts, or the caller gets the error.
    Over(Result<(), LockError>),
}

/// A body under a lock.
#[derive(Debug)]
pub struct Guarded {
    cancel_policy: CancelPolicy,
    state: State,
}

enum State {
    Entering(Entering),
    Inside(Inside),
    Leaving(Pin<Box<dyn Future<Output = ()> + Send>>, Result<(), LockError>),
    Over,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Entering(_) => "Entering",
            State::Inside(_) => "Inside",
            State::Leaving(..) => "Leaving",
            State::Over => "Over",
        })
    }
}

struct Inside {
    entered: Entered,
    frame: Option<Arc<Frame>>,
    begun: bool,
    /// Resolves when something ends the body early, once the body has to wait.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Guarded {
    /// Runs a body under the guard that is being acquired.
    pub fn new(entering: Entering, cancel_policy: CancelPolicy) -> Self {
        Guarded { cancel_policy, state: State::Entering(entering) }
    }

    /// Fails without acquiring anything.
    pub fn failed(error: LockError) -> Self {
        Self::new(Box::pin(ready(Err(error))), CancelPolicy::default())
    }

    /// Makes the next step.
    pub fn poll(&mut self, cx: &mut Context<'_>, body: &mut dyn ErasedBody) -> Poll<Step> {
        loop {
            match &mut self.state {
                State::Entering(entering) => {
                    let entered = task::ready!(entering.as_mut().poll(cx));
                    match entered {
                        Ok(entered) => self.enter(entered, body),
                        Err(error) => {
                            self.state = State::Over;
                            body.empty();
                            return Poll::Ready(Step::Over(Err(error.before_body())));
                        }
                    }
                }
                State::Inside(inside) => {
                    let ran = task::ready!(inside.poll(cx, self.cancel_policy, body));
                    inside.empty(body);
                    match ran {
                        Ok(()) => return Poll::Ready(Step::Returned),
                        Err(error) => {
                            // It may own what the lock protects, as the body did.
                            inside_sync(inside.frame.clone(), || body.discard());
                            self.leave(Err(error));
                        }
                    }
                }
                State::Leaving(leaving, outcome) => {
                    task::ready!(leaving.as_mut().poll(cx));
                    let outcome = mem::replace(outcome, Ok(()));
                    self.state = State::Over;
                    return Poll::Ready(Step::Over(outcome));
                }
                State::Over => return Poll::Pending,
            }
        }
    }

    fn enter(&mut self, entered: Entered, body: &mut dyn ErasedBody) {
        let begins = may_begin(entered.view(), self.cancel_policy);
        let frame = entered.frame();
        self.state = State::Inside(Inside { entered, frame, begun: false, ending: None });
        if let Err(error) = begins {
            body.empty();
            self.leave(Err(error));
        }
    }

    /// Begins the release. The body has been dropped.
    pub fn leave(&mut self, outcome: Result<(), LockError>) {
        if let State::Inside(Inside { entered, .. }) = mem::replace(&mut self.state, State::Over) {
            self.state = State::Leaving(Box::pin(entered.release(&outcome)), outcome);
        }
    }

    /// Drops the body; inside its scope if it had begun.
    pub fn drop_body(&mut self, body: &mut dyn Place) {
        match &mut self.state {
            State::Inside(inside) => inside.empty(body),
            _ => body.empty(),
        }
    }
}

impl Inside {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        cancel_policy: CancelPolicy,
        body: &mut dyn ErasedBody,
    ) -> Poll<Result<(), LockError>> {
        let over = || over(self.entered.view(), cancel_policy);
        let lost = || self.entered.view().lost_error();
        // Checked before the body continues: the process may have been stopped for longer than the
        // lease.
        if mem::replace(&mut self.begun, true)
            && let Some(error) = over()
        {
            return Poll::Ready(Err(error.with_body(Body::Dropped)));
        }
        match inside_sync(self.frame.clone(), || body.poll(cx)) {
            Poll::Ready(()) if self.entered.view().is_valid() => Poll::Ready(Ok(())),
            Poll::Ready(()) => Poll::Ready(Err(lost().with_body(Body::Finished))),
            Poll::Pending if !cancel_policy.any() && !self.entered.view().is_limited() => {
                Poll::Pending
            }
            Poll::Pending => {
                let ending = self.ending.get_or_insert_with(|| {
                    let view = self.entered.view().view();
                    Box::pin(async move { view.ended(cancel_policy).await })
                });
                task::ready!(ending.as_mut().poll(cx));
                let error = over().unwrap_or_else(lost);
                Poll::Ready(Err(error.with_body(Body::Dropped)))
            }
        }
    }

    fn empty(&mut self, body: &mut dyn Place) {
        drop_inside(self.frame.clone(), Leftover(body));
    }
}

/// A body that is dropped where this is.
struct Leftover<'a>(&'a mut dyn Place);

impl Future for Leftover<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Leftover<'_> {
    fn drop(&mut self) {
        self.0.empty();
    }
}
