//! `mode`: alone, beside other readers, or one of so many.

use proc_macro2::Ident;
use syn::{Expr, ExprCall, Lit};

use crate::{
    choice::word,
    suggest,
    value::{Value, is_negative, literal, peel},
};

/// Beside whom the lock is held.
pub(crate) enum Mode {
    Mutex,
    Read,
    Write,
    /// One of so many permits.
    Semaphore(Value<u32>),
}

impl Mode {
    /// The expression in it.
    pub(crate) fn expression(&self) -> Option<&Expr> {
        match self {
            Mode::Semaphore(limit) => limit.expression(),
            _ => None,
        }
    }
}

const USAGE: &str = "mode is `mutex`, `read`, `write` or `semaphore(3)`";
const PERMITS: &str = "a semaphore has a number of permits from 1 to 2147483647: \
    `mode = semaphore(3)`";

/// Reads `mode`: one of three words, or the number of permits.
pub(crate) fn read(value: Expr) -> syn::Result<Mode> {
    if let Expr::Call(call) = peel(&value) {
        return called(call);
    }
    let Some(word) = word(&value) else {
        let text = matches!(literal(&value), Some(Lit::Str(_)));
        let hint = if text { ", without quotes" } else { "" };
        return Err(syn::Error::new_spanned(&value, format!("{USAGE}{hint}")));
    };
    match word.to_string().as_str() {
        "mutex" => Ok(Mode::Mutex),
        "read" => Ok(Mode::Read),
        "write" => Ok(Mode::Write),
        "semaphore" => Err(syn::Error::new(word.span(), PERMITS)),
        _ => Err(unknown(word)),
    }
}

fn called(call: &ExprCall) -> syn::Result<Mode> {
    let Some(name) = word(&call.func) else {
        return Err(syn::Error::new_spanned(call, USAGE));
    };
    match name.to_string().as_str() {
        "semaphore" => {}
        known @ ("mutex" | "read" | "write") => {
            let message = format!("`{known}` takes nothing in parentheses: `mode = {known}`");
            return Err(syn::Error::new_spanned(call, message));
        }
        _ => return Err(unknown(name)),
    }
    match call.args.iter().collect::<Vec<_>>().as_slice() {
        [limit] => permits(limit).map(Mode::Semaphore),
        _ => Err(syn::Error::new_spanned(call, PERMITS)),
    }
}

fn permits(limit: &Expr) -> syn::Result<Value<u32>> {
    let number = match literal(limit) {
        Some(Lit::Int(number)) if matches!(number.suffix(), "" | "u32") => number,
        None if !is_negative(limit) => return Ok(Value::Expression(limit.clone())),
        _ => return Err(syn::Error::new_spanned(limit, PERMITS)),
    };
    match number.base10_parse() {
        Ok(0) => Err(syn::Error::new(
            number.span(),
            "a semaphore needs at least one permit: `mode = semaphore(3)`",
        )),
        Ok(limit) if i32::try_from(limit).is_ok() => Ok(Value::Known(limit)),
        _ => Err(syn::Error::new(number.span(), PERMITS)),
    }
}

fn unknown(word: &Ident) -> syn::Error {
    let text = word.to_string();
    let meant = match text.to_lowercase().as_str() {
        "exclusive" | "lock" | "unique" => Some("mutex"),
        "shared" | "reader" | "readers" => Some("read"),
        "writer" => Some("write"),
        "permit" | "permits" | "limit" => Some("semaphore(3)"),
        other => suggest::closest(other, &["mutex", "read", "write", "semaphore"]),
    };
    let meant = if meant == Some("semaphore") { Some("semaphore(3)") } else { meant };
    let guess = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    syn::Error::new(word.span(), format!("{USAGE}{guess}"))
}
