//! From the plan to tokens; nothing is decided here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Block, Stmt, Token, Type, token::Brace};

use crate::{
    model::Plan,
    pattern::{self, Piece},
    returns,
    shape::{self, Shape},
    value::Value,
};

/// Writes the guarded function.
pub(crate) fn expand(plan: &Plan) -> TokenStream {
    let Plan { function, params, private, .. } = plan;
    let body = &function.body;
    let span = function.result_span();
    let before = before(plan);
    let (name, call) = (internal("name"), internal("call"));
    let declared = || returns::without_impl(&returns::of(&function.sig.output, span));
    match &plan.shape {
        Shape::Unknown => function.with(&function.sig, &body.tokens),
        Shape::Async => {
            let ty = declared();
            let work = work(plan, Some(&ty), &owners(plan), &braced(body.brace, &body.tokens));
            let run = quote_spanned!(span=> #private::run::<#ty, _>);
            function.with(&params.sig, &quote!(#before #run(#call, #name, async move #work).await))
        }
        Shape::Sync => {
            let ty = declared();
            let work = work(plan, Some(&ty), &owners(plan), &braced(body.brace, &body.tokens));
            let run = quote_spanned!(span=> #private::run_blocking::<#ty, _>);
            function.with(&params.sig, &quote!(#before #run(#call, #name, move || #work)))
        }
        Shape::Tail(stmts) => {
            let mut stmts = stmts.clone();
            if let Some(block) = shape::tail(&mut stmts) {
                let declared = returns::of(&function.sig.output, span);
                let ty = returns::future_output(&declared).map(returns::without_impl);
                let inner = &block.block;
                let work = work(plan, ty.as_ref(), &named(plan), &quote!(#inner));
                let ty = ty.map_or_else(|| quote!(_), |ty| quote!(#ty));
                let run = quote_spanned!(span=> #private::run::<#ty, _>);
                let mode = block.capture;
                let guarded = quote!(#before #run(#call, #name, async #mode #work).await);
                block.block = Block {
                    brace_token: block.block.brace_token,
                    stmts: vec![Stmt::Expr(syn::Expr::Verbatim(guarded), None)],
                };
            }
            function.with(&function.sig, &quote!(#(#stmts)*))
        }
    }
}

/// What happens before the wait: the name is checked and filled, the options are read.
///
/// In statements of its own, because what the expressions borrow must not live across the wait.
fn before(plan: &Plan) -> TokenStream {
    let Plan { literal, pieces, private, .. } = plan;
    let (name, call) = (internal("name"), internal("call"));
    let check = quote_spanned!(literal.span()=> #private::check_pattern(#literal));
    let filled = match pattern::constant(pieces) {
        Some(text) => quote!(#private::Name::literal(#text)),
        None => {
            let parts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => quote!(.text(#text)),
                Piece::Value(place) => quote_spanned!(literal.span()=> .value(&#place)),
            });
            let roots = pattern::roots(pieces);
            let peeks = plan.params.peeks.iter().filter_map(|peek| {
                let read = roots.iter().any(|root| peek.bindings.contains(root));
                read.then_some(&peek.statement)
            });
            quote!({ #(#peeks)* #private::Name::pattern() #(#parts)* .build() })
        }
    };
    let timeout = plan.timeout.as_ref().map(|timeout| match timeout {
        Value::Known(timeout) => {
            let (seconds, nanos) = (timeout.as_secs(), timeout.subsec_nanos());
            quote!(.timeout(#private::std::time::Duration::new(#seconds, #nanos)))
        }
        Value::Expression(timeout) => quote!(.timeout(#timeout)),
    });
    let retries = plan.retries.as_ref().map(|retries| match retries {
        Value::Known(retries) => quote!(.retries(#retries)),
        Value::Expression(retries) => quote!(.retries(#retries)),
    });
    let session = plan.session.as_ref().map(|session| quote!(.session(#session)));
    quote! {
        const _: () = #check;
        let #name = #filled;
        let #call = #private::Call::new(#literal) #timeout #retries #session;
    }
}

/// The guarded block: parameters, then the body in its own braces.
///
/// The inner braces are the user's, so that the body's temporaries drop as in the user's edition.
/// The outer ones are ours, of edition 2024: what the inner block leaves drops before the
/// parameters, in every edition, without a `let` that would show in the user's lints.
fn work(plan: &Plan, ty: Option<&Type>, owners: &TokenStream, body: &TokenStream) -> TokenStream {
    let private = &plan.private;
    let span = plan.function.result_span();
    // Tells the compiler the type before the first `?` or `return` in the body.
    let edge = ty.map(|ty| {
        quote_spanned! {span.resolved_at(Span::mixed_site())=>
            if let #private::std::option::Option::Some(__zklock_never) =
                #private::std::option::Option::None::<#ty>
            {
                return __zklock_never;
            }
        }
    });
    if edge.is_none() && owners.is_empty() {
        // Braces around nothing but braces are something that lints speak of.
        return body.clone();
    }
    quote!({ #edge #owners #body })
}

/// Moves every parameter into the block, in their order, `self` first.
fn owners(plan: &Plan) -> TokenStream {
    // `self` cannot be bound anew; a borrow makes the block take it whole.
    let receiver = plan.params.receiver.as_ref().map(borrow);
    let rebinds = &plan.params.rebinds;
    let read = pattern::roots(&plan.pieces).into_iter().filter(|root| *root != "self").map(borrow);
    quote!(#receiver #(#rebinds)* #(#read)*)
}

/// Moves those parameters into the block of which the name has read a part.
fn named(plan: &Plan) -> TokenStream {
    pattern::roots(&plan.pieces).into_iter().map(borrow).collect()
}

/// Uses a parameter, so that the block takes it and nothing says that it is unused.
fn borrow(root: &Ident) -> TokenStream {
    let let_ = Token![let](Span::mixed_site());
    quote!(#let_ _ = &#root;)
}

fn braced(brace: Brace, statements: &TokenStream) -> TokenStream {
    let mut tokens = TokenStream::new();
    brace.surround(&mut tokens, |tokens| tokens.extend(statements.clone()));
    tokens
}

fn internal(name: &str) -> Ident {
    Ident::new(&format!("__zklock_{name}"), Span::mixed_site())
}
