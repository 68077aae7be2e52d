//! Variables before a guarded block that take the name of a parameter.

use syn::{Expr, ExprCall, Ident, Local, Pat, Stmt, UnOp};

use crate::{errors::Errors, params::bindings, value::peel};

/// What returns the value itself, owned, borrowed or as another type.
const SAME: [&str; 12] = [
    "as_ref",
    "as_str",
    "borrow",
    "clone",
    "cloned",
    "copied",
    "deref",
    "from",
    "into",
    "into_owned",
    "to_owned",
    "to_string",
];

/// What a value is put into, and shown as before.
const SHOWN_AS_BEFORE: [&str; 4] = ["Arc", "Box", "Cow", "Rc"];

/// Refuses a variable before the block that takes the name of a parameter, and may have another
/// value: the lock's name is filled in the block, and would be that of another lock.
pub(crate) fn refuse(stmts: &[Stmt], read: &[Ident], errors: &mut Errors) {
    let Some((_, before)) = stmts.split_last() else { return };
    for stmt in before {
        let Stmt::Local(Local { pat, init, .. }) = stmt else { continue };
        let value = init.as_ref().map(|init| &*init.expr);
        for name in bindings(pat).iter().filter(|name| read.contains(name)) {
            if !value.is_some_and(|value| keeps(pat, value, name)) {
                let message = format!(
                    "`{name}` is a parameter that the lock's name or an option reads, and in the \
                     block it would be this variable, whose value may be another; give the \
                     variable another name, which `key` or another expression may read"
                );
                errors.push(syn::Error::new(name.span(), message));
            }
        }
    }
}

/// Whether a pattern gives a name the value that it has already, as far as one can see.
fn keeps(pat: &Pat, value: &Expr, name: &Ident) -> bool {
    match (pat, peel(value)) {
        (Pat::Type(typed), value) => keeps(&typed.pat, value, name),
        (Pat::Tuple(pats), Expr::Tuple(values)) if pats.elems.len() == values.elems.len() => {
            let mut pairs = pats.elems.iter().zip(&values.elems);
            pairs.all(|(pat, value)| !bindings(pat).contains(name) || keeps(pat, value, name))
        }
        (_, value) => is_same(value, name),
    }
}

/// Whether an expression is the value of a name, by whatever type.
fn is_same(value: &Expr, name: &Ident) -> bool {
    match peel(value) {
        Expr::Path(path) => path.path.is_ident(name),
        Expr::Reference(reference) => is_same(&reference.expr, name),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)) && is_same(&unary.expr, name),
        Expr::MethodCall(call) => {
            call.args.is_empty()
                && SAME.iter().any(|same| call.method == same)
                && is_same(&call.receiver, name)
        }
        Expr::Call(call) => {
            call.args.len() == 1
                && returns_the_same(call)
                && call.args.iter().all(|argument| is_same(argument, name))
        }
        _ => false,
    }
}

/// Recognises `Arc::clone(…)`, `String::from(…)` and `Arc::new(…)`.
fn returns_the_same(call: &ExprCall) -> bool {
    let Expr::Path(callee) = peel(&call.func) else { return false };
    let mut names = callee.path.segments.iter().rev().map(|segment| &segment.ident);
    let (Some(last), Some(ty)) = (names.next(), names.next()) else { return false };
    let is_one = |name: &Ident, of: &[&str]| of.iter().any(|one| name == one);
    is_one(last, &SAME) || last == "new" && is_one(ty, &SHOWN_AS_BEFORE)
}
