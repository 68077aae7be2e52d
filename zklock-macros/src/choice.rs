//! Options that choose: what is done when something happens, and whether something is.

use proc_macro2::{Ident, Span};
use syn::{Expr, Lit, LitBool, spanned::Spanned as _};

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

/// What becomes of a body whose lock is to be let go.
pub(crate) enum OnRevoked {
    Cancel,
    Ignore,
}

/// When a guard stops being valid, if the connection is in trouble.
pub(crate) enum StopAt {
    Suspect,
    Lost,
}

const ON_BUSY: &str = "on_busy is `error`, `skip`, or a function that makes the result from the \
    error: `on_busy = |error| Ok(Answer::Busy)`";
const ON_ERROR: &str = "on_error is a function that makes the result from the error: \
    `on_error = |error| Answer::from(error)`";
const MAP_ERR: &str = "map_err is a function that makes the function's own error from the \
    `LockError`: `map_err = ApiError::Lock`";
const ON_LOST: &str = "on_lost is `cancel` (the body is dropped at its next await) or `finish`";
const ON_REVOKED: &str = "on_revoked is `cancel` (the body is dropped at its next await when \
    somebody asks that the lock be let go) or `ignore`";
const STOP_AT: &str = "stop_at is `suspect` (the lock is lost as soon as the connection is in \
    doubt) or `lost` (only when it could not be kept)";
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

/// Reads `on_error`: a path or a closure.
pub(crate) fn on_error(value: Expr) -> syn::Result<Expr> {
    if word(&value).is_some_and(|word| word == "skip" || word == "error") {
        return Err(syn::Error::new_spanned(
            value,
            format!("{ON_ERROR}; only a busy lock can be skipped: `on_busy = skip`"),
        ));
    }
    handler("on_error", value, ON_ERROR)
}

/// Reads `map_err`: a path or a closure.
pub(crate) fn map_err(value: Expr) -> syn::Result<Expr> {
    if word(&value).is_some_and(|word| word == "skip" || word == "error") {
        return Err(syn::Error::new_spanned(
            value,
            format!("{MAP_ERR}; only a busy lock can be skipped: `on_busy = skip`"),
        ));
    }
    handler("map_err", value, MAP_ERR)
}

fn handler(option: &str, value: Expr, usage: &str) -> syn::Result<Expr> {
    match peel(&value) {
        Expr::Lit(_) | Expr::Unary(_) | Expr::Tuple(_) | Expr::Array(_) => {
            Err(syn::Error::new_spanned(value, usage))
        }
        Expr::Closure(closure) if closure.asyncness.is_some() => Err(syn::Error::new_spanned(
            value,
            format!("{option} answers at once: it is a closure, but no async one"),
        )),
        Expr::Closure(closure) if closure.inputs.len() != 1 => Err(syn::Error::new_spanned(
            value,
            format!("{option} is called with one argument, the `LockError`: `|error| …`"),
        )),
        _ => Ok(value),
    }
}

/// Reads `on_lost`: one of two words.
pub(crate) fn on_lost(value: &Expr) -> syn::Result<OnLost> {
    let cancels = cancels_or(value, "finish", ON_LOST)?;
    Ok(if cancels { OnLost::Cancel(value.span()) } else { OnLost::Finish })
}

/// Reads `on_revoked`: one of two words.
pub(crate) fn on_revoked(value: &Expr) -> syn::Result<OnRevoked> {
    let cancels = cancels_or(value, "ignore", ON_REVOKED)?;
    Ok(if cancels { OnRevoked::Cancel } else { OnRevoked::Ignore })
}

/// Reads `stop_at`: one of two words.
pub(crate) fn stop_at(value: &Expr) -> syn::Result<StopAt> {
    let suspect = first_of(value, ["suspect", "lost"], STOP_AT, |text| match text {
        "suspended" | "doubt" | "standard" => Some("suspect"),
        "expired" | "session" => Some("lost"),
        _ => None,
    })?;
    Ok(if suspect { StopAt::Suspect } else { StopAt::Lost })
}

/// Reads `cancel` or another word.
fn cancels_or(value: &Expr, other: &str, usage: &str) -> syn::Result<bool> {
    first_of(value, ["cancel", other], usage, |text| match text {
        "abort" | "drop" | "stop" => Some("cancel"),
        "finish" | "ignore" | "keep" | "go_on" => Some(other),
        _ => None,
    })
}

/// Reads one of two words, and says whether it is the first; `meant` knows what others call them.
fn first_of<'a>(
    value: &Expr,
    words: [&'a str; 2],
    usage: &str,
    meant: impl FnOnce(&str) -> Option<&'a str>,
) -> syn::Result<bool> {
    let Some(word) = word(value) else {
        let quoted = words.iter().any(|word| quotes(value, word));
        let hint = if quoted { "; without quotes" } else { "" };
        return Err(syn::Error::new_spanned(value, format!("{usage}{hint}")));
    };
    let text = word.to_string();
    if let Some(at) = words.iter().position(|word| *word == text) {
        return Ok(at == 0);
    }
    let text = text.to_lowercase();
    let meant = meant(&text).or_else(|| suggest::closest(&text, &words));
    let guess = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    Err(syn::Error::new(word.span(), format!("{usage}{guess}")))
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
