//! Where the work of a function is: in its body, or in a future that it returns.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{
    Block, Expr, ExprAsync, ExprClosure, ExprReturn, Item, Local, Macro, Pat, Stmt, Token, Type,
    parse::Parser as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use crate::{errors::Errors, item::Function, returns, tokens};

/// What the guard goes around.
pub(crate) enum Shape {
    /// The body of an `async fn`.
    Async,
    /// The body of a plain function.
    Sync,
    /// The async block that a plain function ends with.
    Tail(Vec<Stmt>),
    /// What cannot be guarded; the mistake is told.
    Unknown,
}

const NO_TAIL: &str = "this function returns a future that #[zk_locked] cannot see into, and the \
    lock would be released before that future runs; make it an `async fn`, or end it with \
    `async move { … }` or `Box::pin(async move { … })`";
const UNREADABLE: &str = "#[zk_locked] cannot read this body, so it cannot find the async block to \
    guard; make it an `async fn`";
const LATER: &str = "this result contains a future or a stream, which would run after the release; \
    await it in the function, and return its result. What is meant to run without the lock is returned \
    under an alias: `type Later = …`";
const RETURN: &str = "this `return` would return a future that is not guarded; \
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
    let body = &function.body.tokens;
    let mut stmts = match Block::parse_within.parse2(body.clone()) {
        Ok(stmts) => stmts,
        // Such as what `macro_rules!` passes on as a whole: rustc reads it.
        Err(flaw) if returns::is_future(&ty) || tokens::ends_with_block(body.clone()) => {
            errors.push(syn::Error::new(flaw.span(), UNREADABLE));
            return Shape::Unknown;
        }
        Err(_) => {
            later(&ty);
            return Shape::Sync;
        }
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
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Verbatim(tokens) => self.unread(tokens),
            expr => visit::visit_expr(self, expr),
        }
    }
    /// The arguments of a macro belong to the function, as far as one can see.
    fn visit_macro(&mut self, call: &Macro) {
        match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(call.tokens.clone()) {
            Ok(arguments) => arguments.iter().for_each(|argument| self.visit_expr(argument)),
            Err(_) => self.unread(&call.tokens),
        }
    }
    fn visit_expr_async(&mut self, _: &ExprAsync) {}
    fn visit_expr_closure(&mut self, _: &ExprClosure) {}
    fn visit_item(&mut self, _: &Item) {}
}

impl Returns<'_> {
    fn unread(&mut self, tokens: &TokenStream) {
        for word in tokens::returns(tokens.clone()) {
            self.0.push(syn::Error::new(word.span(), RETURN));
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};
    use quote::quote;

    use super::*;

    /// What is said of a function, whose body is raw tokens.
    fn said(output: TokenStream, body: TokenStream) -> Option<String> {
        let function = syn::parse2(quote!(fn guarded() -> #output { #body })).unwrap();
        let mut errors = Errors::default();
        of(&function, &mut errors);
        errors.finish().err().map(|error| error.to_string())
    }

    /// As `macro_rules!` passes on a `$step:stmt`.
    fn step(tokens: TokenStream) -> Group {
        Group::new(Delimiter::None, tokens)
    }

    fn work() -> TokenStream {
        quote!(std::pin::Pin<Box<dyn Future<Output = Result<(), LockError>>>>)
    }

    #[test]
    fn a_future_is_never_made_without_the_lock_because_its_body_cannot_be_read() {
        let step = step(quote!(let id: u64 = 1));
        for output in [work(), quote!(impl Future<Output = ()>), quote!(Work)] {
            let blocks = [
                quote!(async {}),
                quote!(async move {}),
                quote!(Box::pin(async move {})),
                quote!(Box::pin(async {}.boxed(),)),
            ];
            for block in blocks {
                let said = said(output.clone(), quote!(#step; #block));
                assert_eq!(said.as_deref(), Some(UNREADABLE), "{output} {block}");
            }
        }
        assert_eq!(said(work(), quote!(#step; work())).as_deref(), Some(UNREADABLE));
    }

    #[test]
    fn a_plain_body_that_cannot_be_read_is_guarded() {
        let step = step(quote!(let id: u64 = 1));
        assert_eq!(said(quote!(Result<(), LockError>), quote!(#step; Ok(()))), None);
        assert_eq!(said(quote!(Result<(), LockError>), quote!(#step; wait(async {}))), None);
        let stream = quote!(Result<BoxStream<'static, u8>, LockError>);
        assert_eq!(said(stream, quote!(#step; Ok(it))).as_deref(), Some(LATER));
    }

    #[test]
    fn a_return_in_a_macro_before_the_block_is_refused() {
        let calls = [
            quote!(let id = unwrap_or!(id, return Box::pin(work()));),
            quote!(unwrap_or!(id, { return Box::pin(work()) });),
            quote!(unwrap_or! { id => return Box::pin(work()), _ }),
            quote!(outer!(inner![id => { return Box::pin(work()) }]);),
            quote!(if true {
                unwrap_or!(id; return work())
            }),
        ];
        for call in calls {
            let said = said(work(), quote!(#call Box::pin(async move {})));
            assert_eq!(said.as_deref(), Some(RETURN), "{call}");
        }
    }

    #[test]
    fn a_return_of_a_block_or_closure_of_its_own_stays_in_a_macro() {
        let calls = [
            quote!(let id = join!(async { return 1 }, async move { return 2 });),
            quote!(let id = select! { id = async { return 1 } => id };),
            quote!(let id = vec![|id: u64| { return id }];),
            quote!(tracing::info!("a return", r#return = 1);),
        ];
        for call in calls {
            assert_eq!(said(work(), quote!(#call Box::pin(async move {}))), None, "{call}");
        }
    }
}
