//! What of a body's result waits while its lock is let go.
//!
//! A value that lives across an await is part of the future, which is `Send` only if the value is.
//! An `async fn` returns what it likes and stays `Send`, because its result lives across none. So a
//! result that is not `Send` cannot wait for the release without taking that from its callers:
//! `Result<_, Box<dyn Error>>` is one. Whoever knows the type says how much of it can.

use std::convert::Infallible;

/// What of a `T` waits.
pub trait Keep<T> {
    /// That which waits.
    type Part;

    /// The part that waits, or the result, of which nothing may.
    ///
    /// # Errors
    ///
    /// The result.
    fn part(result: T) -> Result<Self::Part, T>;

    /// The result that the part stands for.
    fn whole(part: Self::Part) -> T;
}

/// All of it.
#[derive(Debug)]
pub struct Whole;

impl<T> Keep<T> for Whole {
    type Part = T;

    fn part(result: T) -> Result<T, T> {
        Ok(result)
    }

    fn whole(part: T) -> T {
        part
    }
}

/// A success. An error does not wait.
#[derive(Debug)]
pub struct Success;

impl<V, E> Keep<Result<V, E>> for Success {
    type Part = V;

    fn part(result: Result<V, E>) -> Result<V, Result<V, E>> {
        result.map_err(Err)
    }

    fn whole(part: V) -> Result<V, E> {
        Ok(part)
    }
}

/// Nothing.
#[derive(Debug)]
pub struct Nothing;

impl<T> Keep<T> for Nothing {
    type Part = Infallible;

    fn part(result: T) -> Result<Infallible, T> {
        Err(result)
    }

    fn whole(part: Infallible) -> T {
        match part {}
    }
}
