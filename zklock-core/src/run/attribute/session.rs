//! Sessions, given by name or by value.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::session::handle::Session;
use crate::session::registry::SessionRegistry;

/// The values that `session = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`session` is a session or the name of a registered one",
    label = "this is neither a `zklock::Session` nor a string"
)]
pub trait ToSession {
    /// The session.
    ///
    /// # Errors
    ///
    /// As [`SessionRegistry::session`].
    fn to_session(&self) -> Result<Session, LockError>;
}

impl ToSession for Session {
    fn to_session(&self) -> Result<Session, LockError> {
        Ok(self.clone())
    }
}

impl ToSession for str {
    fn to_session(&self) -> Result<Session, LockError> {
        SessionRegistry::global().session(Some(self))
    }
}

impl ToSession for String {
    fn to_session(&self) -> Result<Session, LockError> {
        self.as_str().to_session()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for &S {
    fn to_session(&self) -> Result<Session, LockError> {
        (**self).to_session()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for Arc<S> {
    fn to_session(&self) -> Result<Session, LockError> {
        (**self).to_session()
    }
}
