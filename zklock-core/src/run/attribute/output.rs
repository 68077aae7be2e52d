//! How much of a function's result waits for the release: as much as is `Send`.

use std::future::Future;
use std::marker::PhantomData;

use crate::run::kept::{Nothing, Success, Whole};

/// Stands for the result of a body.
#[derive(Debug)]
pub struct Output<T>(PhantomData<fn() -> T>);

impl<T> Output<T> {
    /// Stands for the result of a body, which is given back. A body that were borrowed would keep its
    /// first place in the future beside the one that it is moved to.
    #[must_use]
    pub const fn of<F: Future<Output = T>>(body: F) -> (Option<F>, Self) {
        (Some(body), Output(PhantomData))
    }
}

/// Chooses by the type: called on a reference to a reference to a reference, a method is looked for
/// from the top down, and the first whose bounds hold is taken. A type parameter without `Send` is
/// not known to be.
pub trait Choose {
    /// What waits.
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
