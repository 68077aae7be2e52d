//! Options that choose: what is done when something happens, and whether something is.

use proc_macro2::Ident;
use syn::{Expr, Lit, LitBool};

use crate::{
    suggest,
    value::{Value, literal, peel},
};

/// What the function returns while the lock is busy.
pub(crate) enum OnBusy {
    /// What any failure does.
    Error,
    /// Nothing, of the kind that the return type has.
    Skip,
    /// What a path or a closure makes of the error.
    Handler(Expr),
}

/// A word that is accepted, the variant that it stands for, and what others call it.
pub(crate) type Word = (&'static str, &'static str, &'static [&'static str]);

/// An option that is one of two words.
pub(crate) struct Choice {
    /// The type of the variants.
    pub(crate) of: &'static str,
    pub(crate) words: [Word; 2],
    pub(crate) usage: &'static str,
}

const ON_BUSY: &str = "on_busy is `error`, `skip`, or a function that makes the result from the \
    error: `on_busy = |error| Ok(Answer::Busy)`";
const ON_ERROR: &str = "on_error is a function that makes the result from the error: \
    `on_error = |error| Answer::from(error)`";
const MAP_ERR: &str = "map_err is a function that makes the function's own error from the \
    `LockError`: `map_err = ApiError::Lock`";
const CONDITION: &str = "condition is an expression of type `bool`; when it is false the function \
    runs without the lock: `condition = amount > 0`";

/// Reads `on_busy`: a word, a path or a closure.
pub(crate) fn on_busy(value: Expr) -> syn::Result<OnBusy> {
    let not_so = |value: &Expr, hint| syn::Error::new_spanned(value, format!("{ON_BUSY}; {hint}"));
    match word(&value).map(Ident::to_string).as_deref() {
        Some("error") => Ok(OnBusy::Error),
        Some("skip") => Ok(OnBusy::Skip),
        Some("Skip" | "ignore" | "none" | "nothing") => Err(not_so(&value, "did you mean `skip`?")),
        Some("Error" | "fail") => Err(not_so(&value, "did you mean `error`?")),
        _ if quotes(&value, "skip") || quotes(&value, "error") => {
            Err(not_so(&value, "without quotes"))
        }
        _ => handler("on_busy", value, ON_BUSY).map(OnBusy::Handler),
    }
}

/// Reads `on_error` or `map_err`: a path or a closure.
pub(crate) fn on_failure(option: &str, value: Expr) -> syn::Result<Expr> {
    let usage = if option == "on_error" { ON_ERROR } else { MAP_ERR };
    if word(&value).is_some_and(|word| word == "skip" || word == "error") {
        return Err(syn::Error::new_spanned(
            value,
            format!("{usage}; only a busy lock can be skipped: `on_busy = skip`"),
        ));
    }
    handler(option, value, usage)
}

fn handler(option: &str, value: Expr, usage: &str) -> syn::Result<Expr> {
    match peel(&value) {
        Expr::Lit(_) | Expr::Unary(_) | Expr::Tuple(_) | Expr::Array(_) => {
            Err(syn::Error::new_spanned(value, usage))
        }
        Expr::Closure(closure) if closure.asyncness.is_some() => Err(syn::Error::new_spanned(
            value,
            format!("{option} must return at once: use a closure that is not async"),
        )),
        Expr::Closure(closure) if closure.inputs.len() != 1 => Err(syn::Error::new_spanned(
            value,
            format!("{option} is called with one argument, the `LockError`: `|error| …`"),
        )),
        _ => Ok(value),
    }
}

impl Choice {
    /// Reads the word, and returns its variant.
    pub(crate) fn read(&self, value: &Expr) -> syn::Result<&'static str> {
        let Choice { words, usage, .. } = self;
        let Some(given) = word(value) else {
            let quoted = words.iter().any(|(word, ..)| quotes(value, word));
            let hint = if quoted { "; without quotes" } else { "" };
            return Err(syn::Error::new_spanned(value, format!("{usage}{hint}")));
        };
        if let Some((_, variant, _)) = words.iter().find(|(word, ..)| given == word) {
            return Ok(variant);
        }
        let text = given.to_string().to_lowercase();
        let meant = words.iter().find(|(.., elsewhere)| elsewhere.contains(&text.as_str()));
        let meant = meant
            .map(|(word, ..)| *word)
            .or_else(|| suggest::closest(&text, &words.map(|(word, ..)| word)));
        let guess = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        Err(syn::Error::new(given.span(), format!("{usage}{guess}")))
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

/// Says whether the expression is a word between quotes.
fn quotes(value: &Expr, word: &str) -> bool {
    matches!(literal(value), Some(Lit::Str(text)) if text.value() == word)
}

/// Returns the one word that the expression is.
pub(crate) fn word(value: &Expr) -> Option<&Ident> {
    match peel(value) {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}
