//! Options that choose: what is done when something happens, and whether something is.

use proc_macro2::{Ident, Span};
use syn::{Expr, Lit, LitBool};

use crate::{
    suggest,
    value::{Value, literal, peel},
};

/// What a busy lock makes the function answer.
pub(crate) enum OnBusy {
    /// What any failure does.
    Error,
    /// Nothing, of the kind that the return type has.
    Skip,
    /// What a path or a closure makes of the error.
    Handler(Expr),
}

/// What becomes of an async body whose lock is lost.
pub(crate) enum OnLost {
    Cancel(Span),
    Finish,
}

const ON_BUSY: &str = "on_busy is `error`, `skip`, or a function that makes the result from the \
    error: `on_busy = |error| Ok(Answer::Busy)`";
const ON_ERROR: &str = "on_error is a function that makes the result from the error: \
    `on_error = |error| Answer::from(error)`";
const ON_LOST: &str = "on_lost is `cancel` (the body is dropped at its next await) or `finish`";
const CONDITION: &str = "condition is an expression of type `bool`; when it is false the function \
    runs without the lock: `condition = amount > 0`";

/// Reads `on_busy`: a word, a path or a closure.
pub(crate) fn on_busy(value: Expr) -> syn::Result<OnBusy> {
    match word(&value).map(Ident::to_string).as_deref() {
        Some("error") => Ok(OnBusy::Error),
        Some("skip") => Ok(OnBusy::Skip),
        Some("Error" | "Skip" | "fail" | "ignore" | "none" | "nothing") => {
            Err(syn::Error::new_spanned(&value, ON_BUSY))
        }
        _ => handler(value, ON_BUSY).map(OnBusy::Handler),
    }
}

/// Reads `on_error`: a path or a closure.
pub(crate) fn on_error(value: Expr) -> syn::Result<Expr> {
    if word(&value).is_some_and(|word| word == "skip" || word == "error") {
        return Err(syn::Error::new_spanned(
            value,
            format!("{ON_ERROR}; only a busy lock can be skipped: `on_busy = skip`"),
        ));
    }
    handler(value, ON_ERROR)
}

fn handler(value: Expr, usage: &str) -> syn::Result<Expr> {
    match peel(&value) {
        Expr::Lit(_) | Expr::Unary(_) | Expr::Tuple(_) | Expr::Array(_) => {
            Err(syn::Error::new_spanned(value, usage))
        }
        Expr::Closure(closure) if closure.asyncness.is_some() => Err(syn::Error::new_spanned(
            value,
            "this is called when there is nothing more to wait for: it is no async closure, and \
             answers at once",
        )),
        Expr::Closure(closure) if closure.inputs.len() != 1 => Err(syn::Error::new_spanned(
            value,
            "this is called with one argument, the `LockError`: `|error| …`",
        )),
        _ => Ok(value),
    }
}

/// Reads `on_lost`: one of two words.
pub(crate) fn on_lost(value: &Expr) -> syn::Result<OnLost> {
    let Some(word) = word(value) else { return Err(syn::Error::new_spanned(value, ON_LOST)) };
    match word.to_string().as_str() {
        "cancel" => Ok(OnLost::Cancel(word.span())),
        "finish" => Ok(OnLost::Finish),
        other => {
            let guess = suggest::closest(other, &["cancel", "finish"])
                .map(|guess| format!("; did you mean `{guess}`?"))
                .unwrap_or_default();
            Err(syn::Error::new(word.span(), format!("{ON_LOST}{guess}")))
        }
    }
}

/// Reads `condition`: an expression that can be true.
pub(crate) fn condition(value: Expr) -> syn::Result<Expr> {
    match literal(&value) {
        Some(Lit::Bool(LitBool { value: always, .. })) => Err(syn::Error::new_spanned(
            &value,
            if *always {
                "this condition is always true; without the option the lock is always taken"
            } else {
                "this condition is always false: the lock would never be taken; remove \
                 #[zk_locked]"
            },
        )),
        Some(_) => Err(syn::Error::new_spanned(&value, CONDITION)),
        None => Ok(value),
    }
}

/// Reads an option that is or is not: `true`, `false` or an expression of type `bool`.
pub(crate) fn flag(option: &str, value: Expr) -> syn::Result<Value<bool>> {
    match literal(&value) {
        Some(Lit::Bool(flag)) => Ok(Value::Known(flag.value)),
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            format!("{option} is `true`, `false` or an expression of type `bool`"),
        )),
        None => Ok(Value::Expression(value)),
    }
}

/// Returns the one word that the expression is.
pub(crate) fn word(value: &Expr) -> Option<&Ident> {
    match peel(value) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}
