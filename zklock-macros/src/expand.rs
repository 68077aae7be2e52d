//! From the plan to tokens; nothing is decided here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{Block, Expr, Path, Stmt, Token, Type, token::Brace};

use crate::{
    model::Plan,
    params::Peek,
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
    let declared = returns::of(&function.sig.output, span);
    match &plan.shape {
        Shape::Unknown => function.with(&function.sig, &body.tokens),
        Shape::Async => {
            let ty = returns::without_impl(&declared);
            let body = braced(body.brace, &body.tokens);
            let work = work(Some(edge(plan, &ty)), &owners(plan), &body);
            let guarded = run(plan, Some(&ty), &quote!(async move #work));
            function.with(&params.sig, &quote!(#before #guarded))
        }
        Shape::Sync => {
            let ty = returns::without_impl(&declared);
            let body = braced(body.brace, &body.tokens);
            let work = work(None, &owners(plan), &body);
            let failed = failed(plan, Some(&ty));
            let guarded = quote!(#private::run_blocking(#call, #name, #failed, move || #work));
            function.with(&params.sig, &quote!(#before #guarded))
        }
        Shape::Tail(stmts) => {
            let mut stmts = stmts.clone();
            if let Some(block) = shape::tail(&mut stmts) {
                let ty = returns::future_output(&declared).map(returns::without_impl);
                let edge = ty.as_ref().map(|ty| edge(plan, ty));
                let mode = block.capture;
                let inner = &block.block;
                let work = work(edge, &named(plan), &quote!(#inner));
                let guarded = run(plan, ty.as_ref(), &quote!(async #mode #work));
                block.block = Block {
                    brace_token: block.block.brace_token,
                    stmts: vec![Stmt::Expr(Expr::Verbatim(quote!(#before #guarded)), None)],
                };
            }
            function.with(&function.sig, &quote!(#(#stmts)*))
        }
    }
}

/// Runs an async block under the lock.
///
/// The block stays in the frame of the function, and only a pointer to it goes on: by value, the
/// future would hold it twice, and four times where guarded functions call each other. What runs
/// it empties the place before the release. The result has a name, so that no temporary at the end
/// of the function drops at another moment in another edition.
fn run(plan: &Plan, ty: Option<&Type>, block: &TokenStream) -> TokenStream {
    let private = &plan.private;
    let (name, call) = (internal("name"), internal("call"));
    let (body, result) = (internal("body"), internal("result"));
    let failed = failed(plan, ty);
    quote! {
        let #body = #private::std::option::Option::Some(#block);
        let #body = #private::std::pin::pin!(#body);
        let #result = #private::run(#call, #name, #failed, #body).await;
        #result
    }
}

/// How a failure becomes the function's result; the one place that asks whether it can.
fn failed(plan: &Plan, ty: Option<&Type>) -> TokenStream {
    let span = plan.function.result_span();
    let private = located(&plan.private, span);
    let ty = ty.map_or_else(|| quote_spanned!(span=> _), |ty| quote!(#ty));
    quote_spanned!(span=> <#ty as #private::FromLockError>::from_lock_error)
}

/// What happens before the wait: the name is checked and filled, the options are read.
///
/// In statements of its own, because what the expressions borrow must not live across the wait.
fn before(plan: &Plan) -> TokenStream {
    let Plan { pieces, private, .. } = plan;
    let mut literal = plan.literal.clone();
    // Shown where it stands, but ours: it is no format string that somebody forgot to format.
    literal.set_span(literal.span().resolved_at(Span::mixed_site()));
    let (name, call) = (internal("name"), internal("call"));
    let located = located(private, literal.span());
    let check = quote_spanned!(literal.span()=> #located::check_pattern(#literal));
    let filled = match pattern::constant(pieces) {
        Some(text) => quote!(#private::Name::literal(#text)),
        None => {
            let parts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => quote!(.text(#text)),
                Piece::Value(place) => quote_spanned!(literal.span()=> .value(&#place)),
            });
            let filled = quote!(#private::Name::pattern() #(#parts)* .build());
            let roots = pattern::roots(pieces);
            let read = |peek: &&Peek| roots.iter().any(|root| peek.bindings.contains(root));
            let peeks: Vec<_> =
                plan.params.peeks.iter().filter(read).map(|p| &p.statement).collect();
            if peeks.is_empty() { filled } else { quote!({ #(#peeks)* #filled }) }
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
/// parameters, in every edition, without a `let` that would show in the user's lints. The
/// parentheses are for a lint too: braces that only hold a value are said to be unnecessary.
fn work(edge: Option<TokenStream>, owners: &TokenStream, body: &TokenStream) -> TokenStream {
    quote!({ #edge #owners (#body) })
}

/// Tells the compiler an async block's type before the first `?` or `return` in it.
///
/// A closure needs none: it learns its type from the parameters of what it is handed to.
fn edge(plan: &Plan, ty: &Type) -> TokenStream {
    let private = &plan.private;
    quote!(if false { return #private::never::<#ty>(); })
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

/// Shows a path at a place in the source; it still means what it meant.
fn located(path: &Path, place: Span) -> TokenStream {
    let tokens = path.to_token_stream().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    tokens.collect()
}

fn internal(name: &str) -> Ident {
    Ident::new(&format!("__zklock_{name}"), Span::mixed_site())
}
