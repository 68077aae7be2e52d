//! The attribute [`macro@zk_locked`] of zklock, which re-exports it; use the crate `zklock`.

mod args;
mod errors;
mod expand;
mod fallback;
mod item;
mod model;
mod params;
mod pattern;
mod returns;
mod shape;
mod suggest;
mod value;

use proc_macro::TokenStream;

/// Runs the function only while its caller holds the lock, in the whole fleet.
///
/// The lock is tried `retries` times, at most `timeout` each, so a call waits at most
/// `timeout × retries` in all (2 × 2 s = 4 s by default) before it fails as busy.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/retries.rs")]
/// ```
///
/// The body never runs without the lock. If the lock is not to be had, the function returns its
/// own error, made from a `zklock::LockError`; so it returns a `Result<_, E>` with
/// `E: From<zklock::LockError>`.
///
/// | option | value | without it |
/// | --- | --- | --- |
/// | the name, first | string literal, with values: `"orders/{order.id}"` | an error |
/// | `timeout` | `"2s"`, `"500ms"`, `"1m 30s"`, or an expression of type `Duration` | the session's, at first 2 s |
/// | `retries` | number of tries: an integer from 1, or an expression of type `u32` | the session's, at first 2 |
/// | `session` | name of a registered session, a string literal | the default session |
/// | `crate` | path under which zklock is reachable | `::zklock` |
///
/// # The name
///
/// A name is a path below the session's root: `orders/create` under the root `/zklock` is
/// `/zklock/orders/create` for every program in whatever language. It is checked when compiling.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/name.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/name.expanded.rs")]
/// ```
///
/// Every parameter moves into the guarded block, so all of them drop before the release.
///
/// # Values in the name
///
/// `{parameter}`, `{parameter.field.field}`, `{tuple.0}` and `{self.field}` are filled in with
/// `Display`, before the body takes the parameters. What a pattern in the parameters binds can be
/// named too (`Json(request): Json<Request>`). A value is escaped: it never adds a segment; an
/// empty one is an error of the call. `{{` and `}}` stand for the braces themselves.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/pattern.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/pattern.expanded.rs")]
/// ```
///
/// # `timeout`
///
/// Bounds one try, connecting included. An expression is evaluated at each call, before the wait,
/// and may use the parameters.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/timeout_expression.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/timeout_expression.expanded.rs")]
/// ```
///
/// # `retries`
///
/// Is the number of tries, not of tries after the first: 1 tries once. The place in the queue is
/// kept from one to the next. For a single question without waiting there is `try_acquire`.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/retries.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/retries.expanded.rs")]
/// ```
///
/// # `session`
///
/// Chooses one of the sessions in the registry by its name.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/session.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/session.expanded.rs")]
/// ```
///
/// # `crate`
///
/// Says where zklock is, for crates that reach it through another one.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/crate.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/crate.expanded.rs")]
/// ```
///
/// # Functions
///
/// **Async functions and methods**, free, in `impl` blocks and in traits, with `self` in any form,
/// generics, lifetimes and patterns. The future is `Send` exactly when the body is.
///
/// **Plain functions and methods** wait on their thread:
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/sync.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/sync.expanded.rs")]
/// ```
///
/// Below `#[track_caller]` the body still sees the function's own place, not its caller's.
///
/// **Plain functions that end with an async block**, bare, in `Box::pin(…)` or with `.boxed()`, are
/// guarded inside the block: what comes before it runs when the function is called, without the
/// lock. `#[async_trait]` methods are of this kind. A function that visibly returns a future in
/// another way is refused, because its work would go on after the release.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/future.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/future.expanded.rs")]
/// ```
///
/// **Beside other attributes**: above `#[tokio::main]` and `#[tokio::test]` (below them is an
/// error), on either side of `#[tracing::instrument]`. Above the lock is outside: with
/// `#[instrument]` first, the span covers the body only.
///
/// # When the lock is released
///
/// After the body's locals, its temporaries and every parameter have been dropped, in the order
/// in which they drop without the attribute: at the end, with `?` and `return`, on a panic, and
/// when the future is dropped. A transaction that the function owns is over before anybody else
/// gets the lock.
#[proc_macro_attribute]
pub fn zk_locked(args: TokenStream, item: TokenStream) -> TokenStream {
    let expansion = model::plan(args.into(), item.clone().into()).map(|plan| expand::expand(&plan));
    fallback::unless(expansion, item.into()).into()
}
