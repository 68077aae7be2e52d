//! Which part of a body's result is kept while its lock is released.
//!
//! A value that lives across an await is part of the future, which is `Send` only if the value is.
//! The future of an `async fn` can be `Send` although its result is not, because the result lives
//! across no await. So a result that is not `Send`, such as `Result<_, Box<dyn Error>>`, cannot be
//! kept during the release without making the future of the caller not `Send`. The code that knows
//! the type decides how much of it is kept.

use std::convert::Infallible;

/// Which part of a `T` is kept.
pub trait Keep<T> {
    /// The part that is kept.
    type Part;

    /// Returns the part that is kept, or the whole result if nothing of it can be kept.
    ///
    /// # Errors
    ///
    /// The result.
    fn part(result: T) -> Result<Self::Part, T>;

    /// Returns the result that the part represents.
    fn whole(part: Self::Part) -> T;
}

/// The whole result is kept.
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

/// A success is kept, an error is not.
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
