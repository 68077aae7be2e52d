//! Values of options: what each accepts, and what is said when it does not.

use std::time::Duration;

use syn::{Expr, ExprLit, ExprUnary, Lit, LitInt, LitStr, Path, UnOp};

const DURATIONS: &str = "write it like \"2s\", \"500ms\" or \"1m 30s\"";
const NOT_ZERO: &str = "timeout must be greater than zero: it bounds one try; \
                        for a single question without waiting use `try_acquire`";
const TRIES: &str = "retries is the number of tries; 1 tries once; \
                     for a single question without waiting use `try_acquire`";

/// A value that is known when compiling, or an expression for run time.
pub(crate) enum Value<T> {
    Known(T),
    Expression(Expr),
}

/// Reads `timeout`: a humantime literal or an expression of type `Duration`.
pub(crate) fn timeout(value: Expr) -> syn::Result<Value<Duration>> {
    match literal(&value) {
        Some(Lit::Str(text)) => duration(text).map(Value::Known),
        Some(Lit::Int(_) | Lit::Float(_)) => {
            Err(syn::Error::new_spanned(&value, format!("timeout needs a unit: {DURATIONS}")))
        }
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            format!("timeout is a duration: {DURATIONS}, or give an expression of type `Duration`"),
        )),
        None if is_negative(&value) => Err(syn::Error::new_spanned(&value, NOT_ZERO)),
        None => Ok(Value::Expression(value)),
    }
}

fn duration(literal: &LitStr) -> syn::Result<Duration> {
    let text = literal.value();
    let error = |message: String| Err(syn::Error::new(literal.span(), message));
    if text.trim_start().starts_with('-') {
        return error(NOT_ZERO.to_owned());
    }
    // humantime's `M` is a month, which nobody means here.
    if let Some(minutes) = month_for_minute(&text) {
        return error(format!(
            "`M` is a month in a duration; did you mean \"{minutes}\" (minutes)?"
        ));
    }
    match humantime::parse_duration(&text) {
        Ok(Duration::ZERO) => error(NOT_ZERO.to_owned()),
        Ok(duration) => Ok(duration),
        Err(reason) => error(match reason {
            humantime::DurationError::Empty => format!("timeout is empty: {DURATIONS}"),
            humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
                format!("timeout needs a unit: {DURATIONS}")
            }
            humantime::DurationError::UnknownUnit { unit, .. } => {
                format!("`{unit}` is not a unit of time: {DURATIONS}")
            }
            reason => format!("\"{text}\" is not a duration ({reason}): {DURATIONS}"),
        }),
    }
}

/// Returns the text with minutes in place of months if a unit in it is the single letter `M`.
fn month_for_minute(text: &str) -> Option<String> {
    let is_unit = |at: usize| {
        let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphabetic());
        alone(text.get(..at).and_then(|s| s.chars().next_back()))
            && alone(text.get(at + 1..).and_then(|s| s.chars().next()))
    };
    let found = text.match_indices('M').any(|(at, _)| is_unit(at));
    found.then(|| text.replace('M', "m"))
}

/// Reads `retries`: a positive integer or an expression of type `u32`.
pub(crate) fn retries(value: Expr) -> syn::Result<Value<u32>> {
    match literal(&value) {
        Some(Lit::Int(number)) => tries(number).map(Value::Known),
        Some(_) => Err(syn::Error::new_spanned(&value, format!("{TRIES}; write `retries = 2`"))),
        None if is_negative(&value) => Err(syn::Error::new_spanned(&value, TRIES)),
        None => Ok(Value::Expression(value)),
    }
}

fn tries(number: &LitInt) -> syn::Result<u32> {
    if !matches!(number.suffix(), "" | "u32") {
        return Err(syn::Error::new(number.span(), "retries is a `u32`"));
    }
    match number.base10_parse() {
        Ok(0) => Err(syn::Error::new(number.span(), TRIES)),
        Ok(tries) => Ok(tries),
        Err(_) => Err(syn::Error::new(number.span(), "retries is at most 4294967295 (`u32`)")),
    }
}

/// Reads `session`: the name of a registered session.
pub(crate) fn session(value: Expr) -> syn::Result<LitStr> {
    match literal(&value) {
        Some(Lit::Str(name)) if name.value().is_empty() => Err(syn::Error::new(
            name.span(),
            "session is empty; without the option the default session is used",
        )),
        Some(Lit::Str(name)) => Ok(name.clone()),
        _ => Err(syn::Error::new_spanned(
            value,
            "session is the name of a registered session as a string literal: `session = \"orders\"`",
        )),
    }
}

/// Reads `crate`: the path under which this crate is reachable, bare or as a string.
pub(crate) fn krate(value: &Expr) -> syn::Result<Path> {
    let error = || {
        syn::Error::new_spanned(
            value,
            "crate is the path under which zklock is reachable: `crate = ::my_prelude::zklock`",
        )
    };
    match peel(value) {
        Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => Ok(path.path.clone()),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            text.parse_with(Path::parse_mod_style).map_err(|_| error())
        }
        _ => Err(error()),
    }
}

/// Returns the literal that the expression is, also when a `macro_rules!` passed it on.
pub(crate) fn literal(value: &Expr) -> Option<&Lit> {
    match peel(value) {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}

fn is_negative(value: &Expr) -> bool {
    match peel(value) {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => literal(expr).is_some(),
        _ => false,
    }
}

fn peel(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => peel(&group.expr),
        Expr::Paren(paren) => peel(&paren.expr),
        value => value,
    }
}
