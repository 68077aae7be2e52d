//! Where the work of a function is: in its body, or in a future that it returns.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{
    Block, Expr, ExprAsync, ExprClosure, ExprReturn, Item, Local, Pat, Stmt, Type,
    parse::Parser as _, visit::Visit,
};

use crate::{errors::Errors, item::Function, returns};

/// What the guard goes around.
pub(crate) enum Shape {
    /// The body of an `async fn`.
    Async,
    /// The body of a plain function.
    Sync,
    /// The async block that a plain function ends with.
    Tail(Vec<Stmt>),
    /// A body that cannot be judged: it does not parse.
    Unknown,
}

const NO_TAIL: &str = "this function returns a future that #[zk_locked] cannot see into, and a \
    guard around its making would be gone before its work; make it an `async fn`, or end it with \
    `async move { … }` or `Box::pin(async move { … })`";
const LATER: &str = "this result carries a future or a stream, and what is left to do in it would be \
    done after the release; do it in the function and return what comes of it. What is meant to run \
    without the lock is returned under another name: `type Later = …`";
const RETURN: &str = "this `return` would leave with a future that is not guarded; \
    #[zk_locked] guards only the async block at the end of the function";
const RUNTIME: &str = "#[tokio::main] and #[tokio::test] have already made this function \
    synchronous; put #[zk_locked] above them";

/// Finds out what a function is.
pub(crate) fn of(function: &Function, errors: &mut Errors) -> Shape {
    let ty = returns::of(&function.sig.output, function.result_span());
    let mut later = |ty: &Type| {
        if returns::is_lazy(ty) {
            errors.push(syn::Error::new_spanned(ty, LATER));
        }
    };
    if function.sig.asyncness.is_some() {
        later(&ty);
        return Shape::Async;
    }
    let Ok(mut stmts) = Block::parse_within.parse2(function.body.tokens.clone()) else {
        return if returns::is_lazy(&ty) { Shape::Unknown } else { Shape::Sync };
    };
    if is_tokio_entry(&stmts) {
        errors.push(syn::Error::new(function.sig.ident.span(), RUNTIME));
        return Shape::Unknown;
    }
    if tail(&mut stmts).is_some() {
        returns::future_output(&ty).into_iter().for_each(&mut later);
        if let Some((_, before)) = stmts.split_last() {
            let mut returns = Returns(errors);
            before.iter().for_each(|stmt| returns.visit_stmt(stmt));
        }
        return Shape::Tail(stmts);
    }
    if returns::is_future(&ty) {
        errors.push(syn::Error::new_spanned(&function.sig.output, NO_TAIL));
        return Shape::Unknown;
    }
    later(&ty);
    Shape::Sync
}

/// Returns the async block that the statements end with, bare or on its way into a box.
pub(crate) fn tail(stmts: &mut [Stmt]) -> Option<&mut ExprAsync> {
    match stmts.last_mut()? {
        Stmt::Expr(expr, None) => async_block(expr),
        _ => None,
    }
}

fn async_block(expr: &mut Expr) -> Option<&mut ExprAsync> {
    match expr {
        Expr::Async(block) => Some(block),
        Expr::Group(group) => async_block(&mut group.expr),
        Expr::Paren(paren) => async_block(&mut paren.expr),
        // `Box::pin(async …)`, as people write it and as `#[async_trait]` does.
        Expr::Call(call) if is_box_pin(&call.func) && call.args.len() == 1 => {
            call.args.first_mut().and_then(async_block)
        }
        // `async { … }.boxed()` of the futures crate.
        Expr::MethodCall(call) if call.method == "boxed" || call.method == "boxed_local" => {
            async_block(&mut call.receiver)
        }
        _ => None,
    }
}

fn is_box_pin(callee: &Expr) -> bool {
    let Expr::Path(path) = callee else { return false };
    let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
    names.next().is_some_and(|last| last == "pin") && names.next().is_some_and(|ty| ty == "Box")
}

/// Recognises what tokio's entry attributes make:
/// `let body = async …; … { … return <runtime>.block_on(body); }`.
fn is_tokio_entry(stmts: &[Stmt]) -> bool {
    let makes_body = stmts.iter().any(|stmt| {
        matches!(stmt, Stmt::Local(Local { pat: Pat::Ident(name), init: Some(init), .. })
            if name.ident == "body" && matches!(*init.expr, Expr::Async(_)))
    });
    let Some(Stmt::Expr(Expr::Block(last), _)) = stmts.last() else { return false };
    let Some(Stmt::Expr(Expr::Return(ExprReturn { expr: Some(expr), .. }), _)) =
        last.block.stmts.last()
    else {
        return false;
    };
    let Expr::MethodCall(call) = &**expr else { return false };
    let argument: TokenStream = call.args.to_token_stream();
    makes_body && call.method == "block_on" && argument.to_string() == "body"
}

/// Points at each `return` that belongs to the function itself.
struct Returns<'a>(&'a mut Errors);

impl Visit<'_> for Returns<'_> {
    fn visit_expr_return(&mut self, expr: &ExprReturn) {
        self.0.push(syn::Error::new_spanned(expr, RETURN));
    }
    fn visit_expr_async(&mut self, _: &ExprAsync) {}
    fn visit_expr_closure(&mut self, _: &ExprClosure) {}
    fn visit_item(&mut self, _: &Item) {}
}
