//! What a pattern binds in the body only, and a handler of a failure names.

use proc_macro2::Span;
use syn::{
    Expr, ExprCall, ExprLit, ExprPath, Ident, Item, Lit, Macro, PatIdent, Token,
    parse::Parser as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use crate::{choice::word, errors::Errors, params::Params};

/// Refuses it: the compiler would say that there is no such name.
///
/// A name that may mean something else in the handler is left to the compiler.
pub(crate) fn refuse<'a>(
    handlers: impl Iterator<Item = &'a Expr>,
    params: &Params,
    errors: &mut Errors,
) {
    // A word by itself is a function.
    for handler in handlers.filter(|handler| word(handler).is_none()) {
        for name in params.peeks.iter().flat_map(|peek| &peek.bindings) {
            let mut uses = Uses { name, read: None, is_bound: false };
            uses.visit_expr(handler);
            if let (Some(place), false) = (uses.read, uses.is_bound) {
                let message = format!(
                    "`{name}` is there in the body only: its pattern leaves a part of the \
                     parameter out, or #[async_trait] has moved it into the body; what is `Copy` is \
                     there for a handler if its pattern binds everything by a name (`_rest` in \
                     place of `_`), or if the parameter is a name by itself"
                );
                errors.push(syn::Error::new(place, message));
            }
        }
    }
}

/// Whether an expression names a variable, and whether it binds one of that name itself.
struct Uses<'a> {
    name: &'a Ident,
    read: Option<Span>,
    is_bound: bool,
}

impl Visit<'_> for Uses<'_> {
    fn visit_expr_path(&mut self, path: &ExprPath) {
        if let Some(word) = path.path.get_ident().filter(|word| *word == self.name) {
            self.read.get_or_insert(word.span());
        }
    }
    fn visit_pat_ident(&mut self, pat: &PatIdent) {
        self.is_bound |= pat.ident == *self.name;
        visit::visit_pat_ident(self, pat);
    }
    /// What is called is a function.
    fn visit_expr_call(&mut self, call: &ExprCall) {
        if word(&call.func).is_none() {
            self.visit_expr(&call.func);
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }
    fn visit_macro(&mut self, call: &Macro) {
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(call.tokens.clone());
        for argument in arguments.iter().flatten() {
            match argument {
                // As in `format!("{id}", id = 7)`.
                Expr::Assign(named) => {
                    self.is_bound |= word(&named.left).is_some_and(|word| word == self.name);
                    self.visit_expr(&named.right);
                }
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                    let (format, name) = (text.value().replace("{{", ""), self.name);
                    if [format!("{{{name}}}"), format!("{{{name}:")]
                        .iter()
                        .any(|value| format.contains(value))
                    {
                        self.read.get_or_insert(text.span());
                    }
                }
                argument => self.visit_expr(argument),
            }
        }
    }
    fn visit_item(&mut self, _: &Item) {}
}
