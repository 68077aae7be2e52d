//! What generated code says before the wait: the name, filled in, and the options.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{Expr, ExprPath, ExprReference, LitStr, Path, Token, spanned::Spanned as _};

use crate::{
    choice::OnBusy,
    item::internal,
    mode::Mode,
    model::{Label, Other, Plan},
    name::{Name, Part},
    pattern::Piece,
    value::peel,
};

/// Shows a path at a place in the source; it still means what it meant.
pub(crate) fn located(path: &Path, place: Span) -> TokenStream {
    let tokens = path.to_token_stream().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    tokens.collect()
}

/// What happens before the wait: the name is checked and filled, the options are read.
///
/// In statements of its own, because what the expressions borrow must not live across the wait.
pub(crate) fn before(plan: &Plan) -> TokenStream {
    let check = check(&plan.name, &plan.private);
    let call = internal("call");
    let made = conditional(plan);
    let peeks: Vec<_> = plan
        .params
        .peeks
        .iter()
        .filter(|peek| plan.read.iter().any(|root| peek.bindings.contains(root)))
        .map(|peek| &peek.statement)
        .collect();
    let made = if peeks.is_empty() { made } else { quote!({ #(#peeks)* #made }) };
    quote! {
        #check
        let #call = #made;
    }
}

/// What is known of a name is checked when compiling.
pub(crate) fn check(name: &Name, private: &Path) -> TokenStream {
    let check = |literal: &LitStr| {
        let located = located(private, literal.span());
        quote_spanned!(literal.span()=> #located::check_pattern(#literal))
    };
    // One after the other: what is wrong in the first is not said again of the whole.
    let mut checks = name.namespace.iter().chain(&name.written).map(check);
    match (checks.next(), checks.next()) {
        (Some(namespace), Some(name)) => quote!(const _: () = { #namespace; #name };),
        (Some(check), None) => quote!(const _: () = #check;),
        (None, _) => TokenStream::new(),
    }
}

/// The call, if its condition is true; the name is not even filled otherwise.
fn conditional(plan: &Plan) -> TokenStream {
    let private = &plan.private;
    let call = call(plan);
    match &plan.settings.condition {
        None => call,
        Some(condition) => {
            quote!(if #private::condition(#condition) { #call } else { #private::Call::without() })
        }
    }
}

fn call(plan: &Plan) -> TokenStream {
    let Plan { private, settings, .. } = plan;
    let new = new(plan);
    let session = settings.session.as_ref().map(|expr| {
        let session = borrowed(expr);
        quote_spanned!(ours(expr.span())=> .session(#session))
    });
    let mode = match &settings.mode {
        None | Some(Mode::Mutex) => None,
        Some(Mode::Read) => Some(quote!(.read())),
        Some(Mode::Write) => Some(quote!(.write())),
        Some(Mode::Semaphore(limit)) => Some(quote!(.semaphore(#limit))),
    };
    let once = settings.try_once.as_ref().map(|once| quote!(.try_once(#once)));
    let label = plan.label.as_ref().map(|text| label(text, private));
    let options = settings.lock.tokens(private);
    let others =
        settings.options.as_ref().map(|expr| quote_spanned!(ours(expr.span())=> .options(#expr)));
    let driver =
        settings.driver.as_ref().map(|expr| quote_spanned!(ours(expr.span())=> .driver(#expr)));
    quote! {
        #new #mode #session #driver #once #label #options #others
    }
}

/// What the lock is taken for, with its values.
fn label(label: &Label, private: &Path) -> TokenStream {
    let pieces = match label {
        Label::Pattern(pieces) => pieces,
        Label::Expression(expr) => {
            let text = borrowed(expr);
            return quote_spanned!(ours(expr.span())=> .label(#text));
        }
    };
    if let [Piece::Text(text)] = pieces.as_slice() {
        return quote!(.label(#text));
    }
    let pieces = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => quote!(.text(#text)),
        Piece::Value(place) => quote_spanned!(ours(place.root().span())=> .value(&#place)),
    });
    quote!(.label(&#private::Label::pattern() #(#pieces)*))
}

/// Begins the call with the name of its lock, or the names of its locks.
fn new(plan: &Plan) -> TokenStream {
    let Plan { name, private, .. } = plan;
    match name.keys.as_slice() {
        [] | [_] => {
            let name = filled(name, private);
            quote!(#private::Call::new(#name))
        }
        // What they have in common is evaluated once.
        keys => {
            let (name, values) = (begun(name, private), keys.iter().map(borrowed));
            quote!(#private::Call::several(#name, &[#(#values),*]))
        }
    }
}

/// A name with its values, of which at most one is a key.
pub(crate) fn filled(name: &Name, private: &Path) -> TokenStream {
    if let Some(text) = name.constant() {
        let shared = Ident::new("__ZKLOCK_NAME", Span::mixed_site());
        return quote!({
            static #shared: #private::Literal = #private::Literal::new(#text);
            #shared.name()
        });
    }
    let begun = begun(name, private);
    let key = name.keys.first().map(|key| {
        let value = borrowed(key);
        quote_spanned!(ours(key.span())=> .value(#value))
    });
    quote!(#begun #key.build())
}

/// All of a name but its keys.
fn begun(name: &Name, private: &Path) -> TokenStream {
    if let ([Part::Constant(path)], []) = (name.parts.as_slice(), name.keys.as_slice()) {
        let text = constant(path, private);
        return quote!(#private::Name::constant(#text));
    }
    let parts = name.parts.iter().map(|part| match part {
        Part::Text(text) => quote!(.text(#text)),
        Part::Prefix(expr) => {
            let text = borrowed(expr);
            quote_spanned!(ours(expr.span())=> .prefix(#text))
        }
        Part::Place(place) => quote_spanned!(ours(place.root().span())=> .value(&#place)),
        Part::Constant(path) => {
            let text = constant(path, private);
            quote!(.text(#text))
        }
    });
    let (pattern, text) = (Ident::new("__ZKLOCK_PATTERN", Span::mixed_site()), &name.pattern);
    quote!({
        static #pattern: #private::StaticPattern = #private::StaticPattern::new(#text);
        #private::Name::of(&#pattern) #(#parts)*
    })
}

/// The text of a constant, checked when compiling.
fn constant(path: &ExprPath, private: &Path) -> TokenStream {
    let private = located(private, path.span());
    let checked = quote_spanned!(path.span()=> #private::constant(#path));
    // What belongs to a type may be another for each type that a function is made for.
    let segments = &path.path.segments;
    let lower = |name: &Ident| name.to_string().starts_with(char::is_lowercase);
    let of_type = segments.iter().rev().skip(1).any(|segment| !lower(&segment.ident));
    if path.qself.is_some() || of_type {
        return quote!(const { #checked });
    }
    let name = Ident::new("__ZKLOCK_CONSTANT", Span::mixed_site());
    quote!({ const #name: &str = #checked; #name })
}

/// A place in the user's source for what we write there: lints see that it is ours.
fn ours(place: Span) -> Span {
    place.resolved_at(Span::mixed_site())
}

/// Borrows an expression, with parentheses where they are needed.
fn borrowed(expr: &Expr) -> Expr {
    Expr::Reference(ExprReference {
        attrs: Vec::new(),
        and_token: Token![&](ours(expr.span())),
        mutability: None,
        expr: Box::new(expr.clone()),
    })
}

/// How a failure becomes the function's result; the one place that asks whether it can.
pub(crate) fn failed(plan: &Plan, ty: Option<&syn::Type>) -> TokenStream {
    let span = plan.function.result_span();
    let private = located(&plan.private, span);
    let ty = ty.map_or_else(|| quote_spanned!(span=> _), |ty| quote!(#ty));
    let made =
        |made: TokenStream| quote_spanned!(span=> #private::pointer(<#ty as #private::#made));
    let skips = matches!(plan.failure.busy, OnBusy::Skip);
    let other = match &plan.failure.other {
        Other::Handler(handler) => called(handler),
        Other::Mapped(map) => {
            let map = called(map);
            let into = quote_spanned!(span=> <#ty as #private::MapError<_>>::from_error);
            let private = &plan.private;
            quote!(#private::map_err(#map, #into))
        }
        Other::From if skips => made(quote_spanned!(span=> Skip>::fail)),
        Other::From => made(quote_spanned!(span=> FromLockError>::from_lock_error)),
    };
    let busy = match (&plan.failure.busy, &plan.failure.other) {
        (OnBusy::Error, _) => return other,
        (OnBusy::Skip, Other::From) => made(quote_spanned!(span=> Skip>::skip)),
        // Of the error nothing is asked, because something else is made of it.
        (OnBusy::Skip, _) => made(quote_spanned!(span=> SkipBusy>::skip)),
        (OnBusy::Handler(handler), _) => called(handler),
    };
    let private = &plan.private;
    quote!(#private::busy_or::<#ty, _, _>(#busy, #other))
}

/// A handler, as a closure where it is a path: an answer of another type is shown at the path then,
/// as what it is, and not as a bound of a function of ours.
fn called(handler: &Expr) -> TokenStream {
    match peel(handler) {
        Expr::Path(_) => {
            let error = Ident::new("__zklock_error", ours(handler.span()));
            quote_spanned!(ours(handler.span())=> |#error| #handler(#error))
        }
        _ => handler.to_token_stream(),
    }
}
