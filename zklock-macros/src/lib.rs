//! The attribute of zklock.

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

/// Runs the function only while its caller holds the lock.
#[proc_macro_attribute]
pub fn zk_locked(args: TokenStream, item: TokenStream) -> TokenStream {
    let expansion = model::plan(args.into(), item.clone().into()).map(|plan| expand::expand(&plan));
    fallback::unless(expansion, item.into()).into()
}
