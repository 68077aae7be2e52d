//! The options that become the `LockOptions` of a call, each by the method of the same name.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::{Expr, Path, spanned::Spanned as _};

use crate::{
    choice::{self, Choice, Word},
    options,
    value::{self, Value},
};

const CANCEL: Word = ("cancel", "Cancel", &["abort", "drop", "stop"]);
const ON_LOST: Choice = Choice {
    of: "OnLost",
    words: [CANCEL, ("finish", "Finish", &["ignore", "keep", "go_on"])],
    usage: "on_lost is `cancel` (the body is dropped at its next await) or `finish`",
};
const ON_REVOKED: Choice = Choice {
    of: "OnRevoked",
    words: [CANCEL, ("ignore", "Ignore", &["finish", "keep", "go_on"])],
    usage: "on_revoked is `cancel` (the body is dropped at its next await when somebody asks for \
            the release of the lock) or `ignore`",
};
const STOP_AT: Choice = Choice {
    of: "StopAt",
    words: [
        ("suspect", "Suspect", &["suspended", "doubt", "standard"]),
        ("lost", "Lost", &["expired", "session"]),
    ],
    usage: "stop_at is `suspect` (the lock is lost as soon as the connection is in doubt) or \
            `lost` (when its lease runs out)",
};

/// The value of one of them.
pub(crate) enum Setting {
    Time(Value<Duration>),
    Tries(Value<u32>),
    Flag(Value<bool>),
    /// A variant of a type, and where the word for it stands.
    Variant(&'static str, &'static str, Span),
}

/// Reads an option of this name.
pub(crate) fn read(option: &str, value: Expr) -> syn::Result<Setting> {
    let positive = |value, wrong| value::positive(option, value, wrong).map(Setting::Time);
    let time = |value, negative| value::time(option, value, negative).map(Setting::Time);
    match option {
        "timeout" => positive(
            value,
            "the timeout of a try must be longer than zero, for instance `timeout = \"2s\"`; to \
             try without waiting, write `try_once`",
        ),
        "retries" => value::retries(value).map(Setting::Tries),
        "linger" => time(
            value,
            "linger is how long the node is kept after the last release; it cannot be negative",
        ),
        "hold_at_least" => positive(
            value,
            "hold_at_least must be longer than zero: for this time from the grant nobody else gets \
             the lock; without the option it is released when the function ends",
        ),
        "hold_at_most" => positive(
            value,
            "`hold_at_most` must be longer than zero, for instance `hold_at_most = \"10m\"`; \
             without the option there is no limit",
        ),
        "lock_delay" => time(
            value,
            "lock_delay is how long nobody gets the lock after its holder was lost; it cannot be \
             negative",
        ),
        "warn_waiting" | "warn_holding" => positive(
            value,
            "`warn_waiting` and `warn_holding` must be longer than zero, for instance \
             `warn_waiting = \"10s\"`; without the option nothing is logged",
        ),
        "on_lost" => variant(&ON_LOST, &value),
        "on_revoked" => variant(&ON_REVOKED, &value),
        "stop_at" => variant(&STOP_AT, &value),
        _ => choice::flag(option, value).map(Setting::Flag),
    }
}

fn variant(choice: &Choice, value: &Expr) -> syn::Result<Setting> {
    Ok(Setting::Variant(choice.of, choice.read(value)?, value.span()))
}

/// Those that were given.
#[derive(Default)]
pub(crate) struct LockOptions(Vec<(String, Setting)>);

impl LockOptions {
    pub(crate) fn set(&mut self, option: &str, setting: Setting) {
        self.0.push((option.to_owned(), setting));
    }

    pub(crate) fn get(&self, option: &str) -> Option<&Setting> {
        self.0.iter().find(|(known, _)| known == option).map(|(_, setting)| setting)
    }

    /// The time that an option says, if it is known when compiling.
    pub(crate) fn time(&self, option: &str) -> Option<Duration> {
        match self.get(option) {
            Some(Setting::Time(Value::Known(time))) => Some(*time),
            _ => None,
        }
    }

    /// Leaves an option out.
    pub(crate) fn remove(&mut self, option: &str) {
        self.0.retain(|(known, _)| known != option);
    }

    /// The expressions in them.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.0.iter().filter_map(|(_, setting)| match setting {
            Setting::Time(value) => value.expression(),
            Setting::Tries(value) => value.expression(),
            Setting::Flag(value) => value.expression(),
            Setting::Variant(..) => None,
        })
    }

    /// Writes them, if there are any, in the order of the [table](options).
    pub(crate) fn tokens(&self, private: &Path) -> Option<TokenStream> {
        let calls = options::names().into_iter().filter_map(|option| {
            let value = match self.get(option)? {
                Setting::Time(Value::Known(time)) => {
                    let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
                    quote!(#private::std::time::Duration::new(#seconds, #nanos))
                }
                Setting::Time(Value::Expression(expr)) => expr.to_token_stream(),
                Setting::Tries(tries) => tries.to_token_stream(),
                Setting::Flag(flag) => flag.to_token_stream(),
                Setting::Variant(of, variant, _) => {
                    let [of, variant] =
                        [of, variant].map(|name| Ident::new(name, Span::call_site()));
                    quote!(#private::#of::#variant)
                }
            };
            let method = Ident::new(option, Span::mixed_site());
            Some(quote!(.#method(#value)))
        });
        let calls: Vec<_> = calls.collect();
        (!calls.is_empty()).then(|| quote!(.options(#private::LockOptions::new() #(#calls)*)))
    }
}
