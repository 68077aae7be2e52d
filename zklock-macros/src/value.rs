//! Values of options: what each accepts, and what is said when it does not.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Expr, ExprLit, ExprPath, ExprUnary, Lit, LitInt, LitStr, Path, UnOp, spanned::Spanned as _,
};

const DURATIONS: &str = "write it like \"2s\", \"500ms\" or \"1m 30s\"";
const TRIES: &str = "`retries` is the total number of tries and must be at least 1; `retries = 1` \
                     tries once, and `try_once` does not wait";

/// A value that is known when compiling, or an expression for run time.
pub(crate) enum Value<T> {
    Known(T),
    Expression(Expr),
}

impl<T> Value<T> {
    /// The expression, if it is one.
    pub(crate) fn expression(&self) -> Option<&Expr> {
        match self {
            Value::Known(_) => None,
            Value::Expression(expression) => Some(expression),
        }
    }
}

impl<T: ToTokens> ToTokens for Value<T> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Value::Known(known) => known.to_tokens(tokens),
            Value::Expression(expression) => expression.to_tokens(tokens),
        }
    }
}

/// Reads a time: a humantime literal or an expression of type `Duration`. `negative` is said of one that
/// is negative.
pub(crate) fn time(option: &str, value: Expr, negative: &str) -> syn::Result<Value<Duration>> {
    duration(option, value, negative).map(|(value, _)| value)
}

/// Reads a time that is longer than zero. `wrong` is said of one that is not.
pub(crate) fn positive(option: &str, value: Expr, wrong: &str) -> syn::Result<Value<Duration>> {
    match duration(option, value, wrong)? {
        (Value::Known(Duration::ZERO), span) => Err(syn::Error::new(span, wrong)),
        (value, _) => Ok(value),
    }
}

/// Reads `options`: an expression whose value are options.
pub(crate) fn options(value: Expr) -> syn::Result<Expr> {
    let is_path = |value: &Expr| match peel(value) {
        Expr::Path(path) => path.path.segments.last().is_some_and(|s| s.ident == "LockOptions"),
        _ => false,
    };
    if literal(&value).is_some() || is_negative(&value) || is_path(&value) {
        return Err(syn::Error::new_spanned(
            &value,
            "options is a `LockOptions`, which the other arguments override: `options = \
             zklock::LockOptions::new().fair(true)`",
        ));
    }
    Ok(value)
}

fn duration(option: &str, value: Expr, negative: &str) -> syn::Result<(Value<Duration>, Span)> {
    let span = value.span();
    match literal(&value) {
        Some(Lit::Str(text)) => {
            parse_duration(option, text, negative).map(|known| (Value::Known(known), span))
        }
        Some(Lit::Int(number)) => {
            let text = format!("{number}s");
            let digits = number.suffix().is_empty() && humantime::parse_duration(&text).is_ok();
            let guess = if digits { format!("; did you mean \"{text}\"?") } else { String::new() };
            Err(syn::Error::new_spanned(
                &value,
                format!("{option} needs a unit: {DURATIONS}{guess}"),
            ))
        }
        Some(Lit::Float(_)) => {
            Err(syn::Error::new_spanned(&value, format!("{option} needs a unit: {DURATIONS}")))
        }
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            format!(
                "{option} is a duration: {DURATIONS}, or give an expression of type `Duration`"
            ),
        )),
        None if is_negative(&value) => Err(syn::Error::new_spanned(&value, negative)),
        None => Ok((Value::Expression(value), span)),
    }
}

fn parse_duration(option: &str, literal: &LitStr, negative: &str) -> syn::Result<Duration> {
    let text = literal.value();
    let error = |message: String| Err(syn::Error::new(literal.span(), message));
    if text.trim_start().starts_with('-') {
        return error(negative.to_owned());
    }
    // humantime's `M` is a month, which nobody means here.
    if let Some(minutes) = month_for_minute(&text) {
        return error(format!(
            "`M` is a month in a duration; did you mean \"{minutes}\" (minutes)?"
        ));
    }
    match humantime::parse_duration(&text) {
        Ok(duration) => Ok(duration),
        Err(reason) => error(match reason {
            humantime::DurationError::Empty => format!("{option} is empty: {DURATIONS}"),
            humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
                format!("{option} needs a unit: {DURATIONS}")
            }
            humantime::DurationError::UnknownUnit { unit, .. } => {
                let guess = unit_meant(&unit)
                    .map(|unit| format!("; did you mean `{unit}`?"))
                    .unwrap_or_default();
                format!("`{unit}` is not a unit of time: {DURATIONS}{guess}")
            }
            reason => format!("\"{text}\" is not a duration ({reason}): {DURATIONS}"),
        }),
    }
}

/// What is meant by units of other places.
fn unit_meant(unit: &str) -> Option<&'static str> {
    match unit.to_lowercase().as_str() {
        "s" | "secs" | "second" | "seconds" => Some("s"),
        "ms" | "mil" | "mils" | "milli" | "millis" | "msecs" | "millisecond" => Some("ms"),
        "mn" | "minute" | "minutes" => Some("min"),
        "h" | "hour" | "hours" => Some("h"),
        "u" | "μs" | "µs" | "micro" | "micros" => Some("us"),
        _ => None,
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
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            "retries is the number of tries, an integer from 1: `retries = 2`",
        )),
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

/// The lock's name, as it was given.
pub(crate) enum Given {
    Pattern(LitStr),
    /// A path of a constant.
    Constant(ExprPath),
}

const NAME: &str = "the lock's name is a string literal, such as \"orders/create\" or \
                    \"order-{order_id}\", or a constant string";

/// Reads the name: a literal or the path of a constant.
pub(crate) fn name(value: &Expr) -> syn::Result<Given> {
    match peel(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) if name.value().is_empty() => {
            Err(syn::Error::new(
                name.span(),
                "a lock name may not be empty; write for instance \"orders/create\"",
            ))
        }
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Ok(Given::Pattern(name.clone())),
        Expr::Path(path) if path.attrs.is_empty() => Ok(Given::Constant(path.clone())),
        _ => Err(syn::Error::new_spanned(value, NAME)),
    }
}

/// Reads `key`: an expression whose value is the last segment of the name. `others` are the keys
/// before it.
pub(crate) fn key(value: Expr, others: &[Expr]) -> syn::Result<Expr> {
    let text = |expr: &Expr| expr.to_token_stream().to_string();
    let own = text(&value);
    if others.iter().any(|other| text(other) == own) {
        return Err(syn::Error::new_spanned(
            &value,
            "this key is given twice, and one lock is taken for it; remove one",
        ));
    }
    match literal(&value) {
        Some(Lit::Str(text)) if text.value().contains('{') => Err(syn::Error::new(
            text.span(),
            "key is an expression, not a pattern: write `key = order.id`, or `{order.id}` in the \
             name",
        )),
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            "this key is always the same; write it into the name",
        )),
        None => Ok(value),
    }
}

/// Reads `namespace`: what is put before the name.
pub(crate) fn namespace(value: Expr) -> syn::Result<Value<LitStr>> {
    match literal(&value) {
        Some(Lit::Str(text)) if text.value().contains(['{', '}']) => {
            Err(syn::Error::new(text.span(), "namespace takes no values; write them into the name"))
        }
        Some(Lit::Str(text)) if text.value().is_empty() => Err(syn::Error::new(
            text.span(),
            "namespace is empty; without the option the name stands alone",
        )),
        Some(Lit::Str(text)) => Ok(Value::Known(text.clone())),
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            "namespace is a string that is put before the name: `namespace = \"billing\"`",
        )),
        None => Ok(Value::Expression(value)),
    }
}

/// Reads `label`: text with values in it, or an expression whose value is a string.
pub(crate) fn label(value: Expr) -> syn::Result<Value<LitStr>> {
    match literal(&value) {
        Some(Lit::Str(text)) if text.value().is_empty() => {
            Err(syn::Error::new(text.span(), "label is empty; without the option there is none"))
        }
        Some(Lit::Str(text)) => Ok(Value::Known(text.clone())),
        Some(_) => Err(syn::Error::new_spanned(
            &value,
            "label is a string that says what the lock is taken for: `label = \"request {id}\"`",
        )),
        None => Ok(Value::Expression(value)),
    }
}

/// Reads `session`: a session or the name of a registered one.
pub(crate) fn session(value: Expr) -> syn::Result<Expr> {
    match literal(&value) {
        Some(Lit::Str(name)) if name.value().is_empty() => Err(syn::Error::new(
            name.span(),
            "session is empty; without the option the default session is used",
        )),
        Some(Lit::Str(_)) | None => Ok(value),
        Some(_) => Err(syn::Error::new_spanned(
            value,
            "session is the name of a registered session, or a session: `session = \"orders\"`, \
             `session = self.session`",
        )),
    }
}

/// Reads `driver`: an expression whose value is a layout.
pub(crate) fn driver(value: Expr) -> syn::Result<Expr> {
    const USAGE: &str = "driver is a layout, such as those in `zklock::layout`";
    let Some(literal) = literal(&value) else { return Ok(value) };
    let meant = match literal {
        Lit::Str(text) => match text.value().to_lowercase().as_str() {
            "curator" | "java" => "Curator",
            "dlock" => "Numbered::dlock()",
            _ => "Kazoo::default()",
        },
        _ => "Kazoo::default()",
    };
    let message = format!("{USAGE}: `driver = zklock::layout::{meant}`");
    Err(syn::Error::new_spanned(&value, message))
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

pub(crate) fn is_negative(value: &Expr) -> bool {
    match peel(value) {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => literal(expr).is_some(),
        _ => false,
    }
}

/// Returns the expression without what only holds it together.
pub(crate) fn peel(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => peel(&group.expr),
        Expr::Paren(paren) => peel(&paren.expr),
        value => value,
    }
}
