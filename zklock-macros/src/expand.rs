//! From the plan to tokens; nothing is decided here.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Block, Expr, Stmt, Token, Type, token::Brace};

use crate::{
    call::{before, failed},
    item::internal,
    model::Plan,
    params::Peek,
    returns,
    shape::{self, Shape},
    tokens::ends_with_async,
};

/// Writes the guarded function.
pub(crate) fn expand(plan: &Plan) -> TokenStream {
    let Plan { function, params, private, .. } = plan;
    let body = &function.body;
    let span = function.result_span();
    let before = before(plan);
    let call = internal("call");
    let declared = returns::of(&function.sig.output, span);
    match &plan.shape {
        Shape::Unknown => function.with(&function.sig, &body.tokens),
        Shape::Async => {
            let ty = returns::written(&declared, private);
            let body = braced(body.brace, &body.tokens);
            let work = work(Some(edge(plan, &ty)), &owners(plan), &body);
            let guarded = run(plan, Some(&ty), &quote!(async move #work));
            function.with(&params.sig, &quote!(#before #guarded))
        }
        Shape::Sync => {
            let ty = returns::written(&declared, private);
            let body = braced(body.brace, &body.tokens);
            let work = work(None, &owners(plan), &body);
            let failed = failed(plan, Some(&ty));
            // The type is said here, for the first `?` or `return` in the closure.
            let guarded = quote! {
                #private::run_blocking::<#ty, _, _>(#call, #failed, move || #work)
            };
            function.with(&params.sig, &quote!(#before #guarded))
        }
        Shape::Tail(stmts) => {
            let mut stmts = stmts.clone();
            if let Some(block) = shape::tail(&mut stmts) {
                let ty = returns::resolved(&declared, private);
                let edge = ty.as_ref().map(|ty| edge(plan, ty));
                let mode = block.capture;
                let Block { brace_token, stmts: inner } = &block.block;
                let inner = braced(*brace_token, &rebinding(plan, quote!(#(#inner)*)));
                let work = work(edge, &named(plan), &inner);
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
/// of the function drops at another moment in another edition; a function that never returns has none,
/// and the name would be said to be unreachable.
///
/// As much of the result as is `Send` waits for the release: what is kept across an await makes the
/// future what it is itself.
fn run(plan: &Plan, ty: Option<&Type>, block: &TokenStream) -> TokenStream {
    let private = &plan.private;
    let (call, body, result) = (internal("call"), internal("body"), internal("result"));
    let (output, keep) = (internal("output"), internal("keep"));
    let failed = failed(plan, ty);
    let ran = quote!(#private::run(#call, #failed, #keep, #body).await);
    let ran = if returns::is_never(&plan.function.sig.output) {
        ran
    } else {
        quote!(let #result = #ran; #result)
    };
    quote! {
        let (#body, #output) = #private::Output::of(#block);
        let #keep = {
            use #private::Choose as _;
            (&&&#output).zklock_keep()
        };
        let #body = #private::std::pin::pin!(#body);
        #ran
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
/// A closure needs none: it learns its type from what it is handed to.
fn edge(plan: &Plan, ty: &Type) -> TokenStream {
    let private = &plan.private;
    let allow = returns::is_never(&plan.function.sig.output)
        .then(|| quote!(#[allow(unreachable_code, clippy::diverging_sub_expression)]));
    quote!(#allow if false { return #private::never::<#ty>(); })
}

/// Moves every parameter into the block, in their order, `self` first.
fn owners(plan: &Plan) -> TokenStream {
    // `self` cannot be bound anew; a borrow makes the block take it whole.
    let receiver = plan.params.receiver.as_ref().map(borrow);
    let rebinds = &plan.params.rebinds;
    let read = plan.read.iter().filter(|root| *root != "self").map(borrow);
    quote!(#receiver #(#rebinds)* #(#read)*)
}

/// Moves those parameters into the block of which a part was read before.
fn named(plan: &Plan) -> TokenStream {
    plan.read.iter().filter(|root| !plan.params.is_borrowed(root)).map(borrow).collect()
}

/// Uses what a block binds anew by the name of a parameter that was read.
///
/// `#[async_trait]` does so at the head of its block, which an `#[instrument]` above the attribute
/// puts into another async block.
fn rebinding(plan: &Plan, statements: TokenStream) -> TokenStream {
    let mut done: Vec<TokenTree> = Vec::new();
    for token in statements {
        match token {
            TokenTree::Group(group) if ends_with_async(&done) => {
                let mut block = Group::new(group.delimiter(), rebinding(plan, group.stream()));
                block.set_span(group.span());
                done.push(block.into());
            }
            token => done.push(token),
        }
        let anew = bound_anew(plan, &done);
        let used: TokenStream =
            plan.read.iter().filter(|root| anew.contains(root)).map(borrow).collect();
        done.extend(used);
    }
    done.into_iter().collect()
}

/// The names that the statement at the end binds: `let name = name;`, or
/// `let (name, _) = { let __arg1 = __arg1; __arg1 };`.
fn bound_anew<'a>(plan: &'a Plan, tokens: &'a [TokenTree]) -> &'a [Ident] {
    use TokenTree::{Group, Ident, Punct};
    let [before @ .., Punct(is), value, Punct(end)] = tokens else { return &[] };
    if is.as_char() != '=' || end.as_char() != ';' {
        return &[];
    }
    match (before, value) {
        ([.., Ident(first), Ident(name)], Ident(value))
            if (first == "let" || first == "mut") && name == value =>
        {
            std::slice::from_ref(name)
        }
        (_, Group(block)) => {
            let whole = block.stream().into_iter().last();
            let is_it = |peek: &&Peek| matches!(&whole, Some(Ident(whole)) if *whole == peek.whole);
            plan.params.peeks.iter().find(is_it).map_or(&[], |peek| &peek.bindings)
        }
        _ => &[],
    }
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
