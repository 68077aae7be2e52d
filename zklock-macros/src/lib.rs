//! The attribute [`macro@zk_locked`] of zklock, which re-exports it; use the crate `zklock`.

mod args;
mod call;
mod choice;
mod errors;
mod expand;
mod fallback;
mod item;
mod lock_name;
mod lock_options;
mod mentions;
mod mode;
mod model;
mod name;
mod options;
mod params;
mod pattern;
mod recorded;
mod returns;
mod shadow;
mod shape;
mod suggest;
mod tokens;
mod unseen;
mod value;

use proc_macro::TokenStream;

/// The function begins only when its caller holds the lock, which excludes the callers in all
/// processes that use the same ZooKeeper.
///
/// A call makes at most `retries` tries of at most `timeout` each, so it waits at most
/// `timeout × retries` (2 × 2 s = 4 s by default) before it fails as busy.
///
/// ```
#[doc = include_str!("../expansions/preamble.txt")]
#[doc = include_str!("../expansions/retries.rs")]
/// ```
///
/// The body never begins without the lock, except where the option `condition` is false. If the
/// lock cannot be acquired, the function returns its own error, converted from a
/// `zklock::LockError`. So its return type is `Result<_, E>` with `E: From<zklock::LockError>`,
/// unless `map_err` makes its error, or `on_busy` or `on_error` says what to return.
///
/// [Recipes](https://github.com/zklock/zklock/blob/main/docs/recipes.md): axum, tonic, jobs,
/// transactions. [Which functions](https://github.com/zklock/zklock/blob/main/docs/attribute.md) can be
/// guarded.
///
#[doc = include_str!("../options.md")]
#[proc_macro_attribute]
pub fn zk_locked(args: TokenStream, item: TokenStream) -> TokenStream {
    let expansion = model::plan(args.into(), item.clone().into()).map(|plan| expand::expand(&plan));
    fallback::unless(expansion, item.into()).into()
}

/// Returns the name of a lock that contains values, by the rules of [`macro@zk_locked`]: a
/// `LockName`, or the error of the values. Every function that takes a name accepts both, so no `?`
/// is needed.
///
/// ```
#[doc = include_str!("../lock_name.txt")]
/// ```
///
/// The first argument is a string literal, or the path of a string constant, which is a complete
/// name. `{variable}`, `{variable.field}`, `{tuple.0}` and `{self.field}` are filled in with
/// `Display`; a value never adds a segment, and an empty one is an error. `namespace`, `key` and
/// `crate` work as in the attribute, with one `key` at most. Literal text is checked at compile
/// time.
#[proc_macro]
pub fn lock_name(input: TokenStream) -> TokenStream {
    lock_name::expand(input.into()).into()
}
