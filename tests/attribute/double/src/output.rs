//! How much of a result waits for the release: as much as is `Send`.

use std::{convert::Infallible, future::Future, marker::PhantomData};

/// What of a result waits.
pub trait Keep<T> {
    type Part;
    fn part(result: T) -> Result<Self::Part, T>;
    fn whole(part: Self::Part) -> T;
}

pub struct Whole;
pub struct Success;
pub struct Nothing;

impl<T> Keep<T> for Whole {
    type Part = T;

    fn part(result: T) -> Result<T, T> {
        Ok(result)
    }

    fn whole(part: T) -> T {
        part
    }
}

impl<V, E> Keep<Result<V, E>> for Success {
    type Part = V;

    fn part(result: Result<V, E>) -> Result<V, Result<V, E>> {
        result.map_err(Err)
    }

    fn whole(part: V) -> Result<V, E> {
        Ok(part)
    }
}

impl<T> Keep<T> for Nothing {
    type Part = Infallible;

    fn part(result: T) -> Result<Infallible, T> {
        Err(result)
    }

    fn whole(part: Infallible) -> T {
        match part {}
    }
}

/// Stands for the result of a body.
pub struct Output<T>(PhantomData<fn() -> T>);

impl<T> Output<T> {
    #[must_use]
    pub const fn of<F: Future<Output = T>>(body: F) -> (Option<F>, Self) {
        (Some(body), Self(PhantomData))
    }
}

/// Chooses by the type: from three references down, the first whose bounds hold.
pub trait Choose {
    type Keep;
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
