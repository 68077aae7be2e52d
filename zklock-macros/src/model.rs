//! The plan: everything that is emitted, decided and free of mistakes.

use std::time::Duration;

use proc_macro2::TokenStream;
use syn::{LitStr, Path, parse_quote};

use crate::{
    args::{self, Args},
    errors::Errors,
    item::Function,
    params::{self, Params},
    pattern::{self, Piece},
    shape::{self, Shape},
    value::Value,
};

/// A function with all that its guard needs.
pub(crate) struct Plan {
    pub(crate) function: Function,
    pub(crate) params: Params,
    pub(crate) shape: Shape,
    /// The name as it was written.
    pub(crate) literal: LitStr,
    /// The name in its parts.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) timeout: Option<Value<Duration>>,
    pub(crate) retries: Option<Value<u32>>,
    pub(crate) session: Option<LitStr>,
    /// The hidden module that generated code calls.
    pub(crate) private: Path,
}

/// Reads options and function together; every mistake in either is in the error.
pub(crate) fn plan(args: TokenStream, item: TokenStream) -> syn::Result<Plan> {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let function = errors.catch(syn::parse2(item));
    let plan = function.and_then(|function| build(args, function, &mut errors));
    errors.finish()?;
    // Nothing is missing without a mistake that says why.
    plan.ok_or_else(|| syn::Error::new(proc_macro2::Span::call_site(), "zk_locked found nothing"))
}

fn build(args: Args, function: Function, errors: &mut Errors) -> Option<Plan> {
    let Args { name, timeout, retries, session, krate } = args;
    if let Some(constness) = &function.sig.constness {
        errors.push(syn::Error::new(
            constness.span,
            "a `const fn` cannot wait for a lock; remove `const` or #[zk_locked]",
        ));
    }
    let mut params = params::split(&function.sig);
    let shape = shape::of(&function, errors);
    if matches!(shape, Shape::Tail(_)) {
        // The signature stays as it is, and with it the names that its patterns bind.
        params.peeks.clear();
    }
    let literal = name?;
    let pieces = pattern::parse(&literal, &params, errors);
    let krate = krate.unwrap_or_else(|| parse_quote!(::zklock));
    let private = parse_quote!(#krate::__private);
    Some(Plan { function, params, shape, literal, pieces, timeout, retries, session, private })
}
