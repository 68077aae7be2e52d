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

/// Runs the function only while its caller holds the lock.
#[proc_macro_attribute]
pub fn zk_locked(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    locked(args.into(), item.into()).into()
}

fn locked(
    args: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    match model::plan(args, item.clone()) {
        Ok(plan) => expand::expand(&plan),
        Err(errors) => fallback::emit(&errors, item),
    }
}
