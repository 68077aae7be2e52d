//! Which part of a function's result is kept during the release: the part that is `Send`.

use std::future::Future;
use std::marker::PhantomData;

use crate::run::kept::{Nothing, Success, Whole};

/// Stands for the result of a body.
#[derive(Debug)]
pub struct Output<T>(PhantomData<fn() -> T>);

impl<T> Output<T> {
    /// Represents the result of a body, and gives the body back. If the body were borrowed, the
    /// future would keep its first place beside the one that it is moved to.
    #[must_use]
    pub const fn of<F: Future<Output = T>>(body: F) -> (Option<F>, Self) {
        (Some(body), Output(PhantomData))
    }
}

/// Chooses by the type: for a call on a reference to a reference to a reference, methods are looked
/// up from the outside in, and the first whose bounds hold is taken. A type parameter without the
/// bound `Send` does not count as `Send`.
pub trait Choose {
    /// The part that is kept.
    type Keep;

    /// The choice.
    fn zklock_keep(&self) -> Self::Keep;
}

impl<T: Send> Choose for &&Output<T> {
    type Keep = Whole;

    fn zklock_keep(&self) -> Whole {
        Whole
    }
}

impl<V: Send, E> Choose for &Output<Result<V, E>> {
    type Keep = Success;

    fn zklock_keep(&self) -> Success {
        Success
    }
}

impl<T> Choose for Output<T> {
    type Keep = Nothing;

    fn zklock_keep(&self) -> Nothing {
        Nothing
    }
}
