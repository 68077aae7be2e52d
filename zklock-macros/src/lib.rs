//! The attribute [`macro@zk_locked`] of zklock, which re-exports it; use the crate `zklock`.

mod args;
mod call;
mod choice;
mod errors;
mod expand;
mod fallback;
mod item;
mod mentions;
mod mode;
mod model;
mod name;
mod options;
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
/// The body never runs without the lock, except where a `condition` that you wrote is false. If the
/// lock is not to be had, the function returns its own error, made from a `zklock::LockError`; so
/// it returns a `Result<_, E>` with `E: From<zklock::LockError>`, or says otherwise by `on_busy` and
/// `on_error`.
///
/// | option | value | without it |
/// | --- | --- | --- |
/// | the name, first | string literal, with values: `"orders/{order.id}"` | an error |
/// | `key` | an expression whose value is one more segment of the name; several are several locks | none |
/// | `mode` | `exclusive`, `read`, `write` or `semaphore(3)` | `exclusive` |
/// | `namespace` | what stands before the name: a string, or an expression of a string | nothing |
/// | `timeout` | `"2s"`, `"500ms"`, `"1m 30s"`, or an expression of type `Duration` | the session's, at first 2 s |
/// | `retries` | number of tries: an integer from 1, or an expression of type `u32` | the session's, at first 2 |
/// | `try_once` | bare, or a `bool`: asks once and does not wait for others | it waits |
/// | `on_busy` | `error`, `skip`, or a function that makes the result from the error | `error` |
/// | `on_error` | a function that makes the result from the error | `From<LockError>` |
/// | `on_lost` | `cancel` or `finish`: what becomes of an async body whose lock is lost | the session's, at first `cancel` |
/// | `on_revoked` | `cancel` or `ignore`: what becomes of a body when somebody asks that its lock be let go | the session's, at first `ignore` |
/// | `stop_at` | `suspect` or `lost`: when the lock counts as lost, if the connection is in trouble | the session's, at first `lost` |
/// | `condition` | a `bool`: if it is false, the body runs without the lock | the lock is taken |
/// | `reentrant` | a `bool`: whether a call around this one may hold the lock already | the session's, at first true |
/// | `fair` | bare, or a `bool`: strictly first come, first served in the whole fleet | the session's, at first false |
/// | `linger` | as `timeout`: keeps the node for so long after the last release | the session's, at first not |
/// | `hold_at_least` | as `timeout`: nobody else gets the lock for so long from the grant | the session's, at first not |
/// | `session` | a session, or the name of a registered one | the default session |
/// | `driver` | a layout in ZooKeeper: `zklock::layout::Kazoo::default()` | the session's, at first Curator's |
/// | `crate` | path under which zklock is reachable | `::zklock` |
///
/// Expressions are evaluated at each call, before the wait, and may use the parameters. What a
/// pattern in the parameters takes apart only in part (`Pair { left, .. }: Pair`) is a reference
/// there, and in an `#[async_trait]` method whatever a pattern takes apart.
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
/// # `key`
///
/// Adds a segment to the name: the value of an expression, escaped. It may be anything that has
/// `Display`, and an empty one is an error of the call.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/key.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/key.expanded.rs")]
/// ```
///
/// Several keys are as many locks, taken as one: all or none, within one `timeout × retries`, and in
/// one order whichever is written first. Keys that are equal at run time take one lock.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/keys.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/keys.expanded.rs")]
/// ```
///
/// # `mode`
///
/// `exclusive` is the default. Readers of a lock are inside together, a writer is alone; a semaphore
/// lets so many in. `read` and `write` exclude each other; in the layouts of Curator and kazoo
/// `exclusive` counts as a writer among them. A semaphore of the same name is another lock.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/mode.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/mode.expanded.rs")]
/// ```
///
/// The number of permits may be an expression of type `u32`.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/mode_semaphore.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/mode_semaphore.expanded.rs")]
/// ```
///
/// # `namespace`
///
/// Stands before the name, with a slash between them. Its own slashes are segments.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/namespace_expression.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/namespace_expression.expanded.rs")]
/// ```
///
/// # `timeout`
///
/// Bounds one try, connecting included.
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
/// kept from one to the next. For a single question without waiting there is `try_once`.
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
/// # `try_once`
///
/// Asks once. If somebody holds the lock, or waits for it, the function fails as busy; `timeout` then
/// bounds how long ZooKeeper may take to answer.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/try_once.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/try_once.expanded.rs")]
/// ```
///
/// # `on_busy`
///
/// `skip` makes a busy lock the natural "nothing" of the return type: `()`, `None`, `Ok(())` or
/// `Ok(None)`. Failures that are not busy are still errors; where the type has none (`()` and
/// `Option`), they are logged.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_busy_skip.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_busy_skip.expanded.rs")]
/// ```
///
/// A path or a closure makes the result from the error. It is called when the body and what it owned
/// are gone, so it can use `self` by reference and other copies, but no parameter that the body
/// takes.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_busy_handler.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_busy_handler.expanded.rs")]
/// ```
///
/// # `on_error`
///
/// The same for every failure of the lock, or for those that `on_busy` leaves. With it a function may
/// return anything. An error of the body is not the lock's, and none of these sees it.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_error.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_error.expanded.rs")]
/// ```
///
/// # `on_lost`
///
/// An async body whose lock is lost is dropped at its next await; with `finish` it may go on to its
/// end. In both cases the function fails as lost, and the error says what became of the body.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_lost.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_lost.expanded.rs")]
/// ```
///
/// # `on_revoked`
///
/// With `cancel`, an async body is dropped at its next await when somebody asks that its lock be let
/// go (`Site::revoke`, Curator's `Revoker`), and the function fails as revoked; the error says what
/// became of the body. Of a plain function that is asked before it begins; later it may ask
/// `zklock::current().is_revoked()` itself.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_revoked.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/on_revoked.expanded.rs")]
/// ```
///
/// # `stop_at`
///
/// With `suspect`, the lock is lost as soon as ZooKeeper is not connected, or has not answered a write
/// for a third of the session timeout, and stays lost if the connection comes back. The body ends as
/// `on_lost` says. With `lost` it goes on as long as the server surely keeps the lock.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/stop_at.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/stop_at.expanded.rs")]
/// ```
///
/// # `condition`
///
/// Takes the lock only if it is true. If not, neither the name nor any other option is evaluated.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/condition.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/condition.expanded.rs")]
/// ```
///
/// # `reentrant`
///
/// With `false` it is an error at once, a deadlock, if a call around this one holds the lock.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/reentrant.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/reentrant.expanded.rs")]
/// ```
///
/// # `fair`
///
/// Gives every waiting task a node of its own.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/fair.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/fair.expanded.rs")]
/// ```
///
/// # `linger`
///
/// Keeps the node for a while, so that the next call in this process takes no request.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/linger.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/linger.expanded.rs")]
/// ```
///
/// # `hold_at_least`
///
/// Keeps the lock for so long from the grant, although the function is over before: for jobs that
/// several machines start at the same time, by clocks that differ a little. The caller is not
/// delayed, and the process may exit. Whoever asks before the end is busy, or waits for it if it has
/// the time.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/hold_at_least.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/hold_at_least.expanded.rs")]
/// ```
///
/// # `session`
///
/// Chooses one of the sessions in the registry by its name, or takes a session that is at hand.
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
/// # `driver`
///
/// Lays the lock out in ZooKeeper as Python's kazoo does, say, or as a driver of one's own. It goes
/// with every mode but `semaphore`, if the layout has that mode.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/driver.rs")]
/// ```
///
/// expands to
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/driver.expanded.rs")]
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
/// generics, lifetimes and patterns. The future is `Send` exactly when the body is, whatever the
/// function returns. It returns when the lock is released; only what is not `Send` of a result (the
/// error of a `Result<_, Box<dyn Error>>`, say), or is not known to be (of a type parameter), is
/// returned at once, and the release goes on in the background.
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
/// another way is refused, because its work would go on after the release; and so is every function
/// whose result visibly carries a future or a stream. The name of a type alias hides it.
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
/// `#[instrument]` first, the span covers the body only. A second `#[zk_locked]` is an error.
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
