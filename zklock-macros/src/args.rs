//! Options as they were written, each with its place in the source.

use std::time::Duration;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Expr, Ident, Lit, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{
    errors::Errors,
    suggest,
    value::{self, Value},
};

const OPTIONS: &[&str] = &["timeout", "retries", "session", "crate"];
const EXPECTED: &str = "the options are `timeout`, `retries`, `session` and `crate`";
const NAME: &str = "the lock's name is a string literal, such as \"orders/create\" or \
                    \"order-{order_id}\"";

/// The options of one attribute, valid each for itself.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Option<LitStr>,
    pub(crate) timeout: Option<Value<Duration>>,
    pub(crate) retries: Option<Value<u32>>,
    pub(crate) session: Option<LitStr>,
    pub(crate) krate: Option<Path>,
}

/// Reads the options; a mistake in one does not hide those in the others.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut reader = Reader { args: Args::default(), seen: Vec::new(), named: false, errors };
    let parsed = (|input: ParseStream<'_>| reader.read(input)).parse2(tokens);
    let Reader { args, named, errors, .. } = reader;
    errors.catch(parsed);
    if !named {
        errors.push(syn::Error::new(
            Span::call_site(),
            "the lock's name is missing: `#[zk_locked(\"orders/create\")]`",
        ));
    }
    args
}

struct Reader<'a> {
    args: Args,
    /// Options met so far, the wrong ones included.
    seen: Vec<String>,
    /// A name was given, even if it was a wrong one.
    named: bool,
    errors: &'a mut Errors,
}

impl Reader<'_> {
    fn read(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            let argument = self.argument(input).and_then(|()| {
                if input.is_empty() || input.peek(Token![,]) {
                    Ok(())
                } else {
                    Err(input.error("expected `,` between options"))
                }
            });
            if self.errors.catch(argument).is_none() {
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.peek(Ident::peek_any) && input.peek2(Token![=]) {
            let option = Ident::parse_any(input)?;
            input.parse::<Token![=]>()?;
            let known = self.announce(&option);
            if input.is_empty() || input.peek(Token![,]) {
                known?;
                return Err(syn::Error::new(option.span(), usage(&option.to_string())));
            }
            let value = input.parse()?;
            known?;
            return self.option(&option.to_string(), value);
        }
        if input.peek(Ident::peek_any) {
            return self.bare_word(input);
        }
        let value = input.parse()?;
        self.name(&value)
    }

    /// Refuses an unknown or repeated option.
    fn announce(&mut self, option: &Ident) -> syn::Result<()> {
        let word = option.to_string();
        if !OPTIONS.contains(&word.as_str()) {
            return Err(self.unknown(option));
        }
        if self.seen.contains(&word) {
            return Err(syn::Error::new(
                option.span(),
                format!("`{word}` is given twice; keep one of them"),
            ));
        }
        self.seen.push(word);
        Ok(())
    }

    fn unknown(&mut self, option: &Ident) -> syn::Error {
        let message = if option == "name" {
            // The one thing that was asked for is there, in another dress.
            self.named = true;
            "the lock's name is given without `name =`: `#[zk_locked(\"orders/create\")]`"
                .to_owned()
        } else {
            let guess = suggest::closest(&option.to_string(), OPTIONS)
                .map(|guess| format!("; did you mean `{guess}`?"))
                .unwrap_or_default();
            format!("unknown option `{option}`{guess} ({EXPECTED})")
        };
        syn::Error::new(option.span(), message)
    }

    fn option(&mut self, option: &str, value: Expr) -> syn::Result<()> {
        match option {
            "timeout" => self.args.timeout = Some(value::timeout(value)?),
            "retries" => self.args.retries = Some(value::retries(value)?),
            "session" => self.args.session = Some(value::session(value)?),
            _ => self.args.krate = Some(value::krate(&value)?),
        }
        Ok(())
    }

    fn name(&mut self, value: &Expr) -> syn::Result<()> {
        if self.named {
            return Err(syn::Error::new_spanned(value, "the lock's name is given twice"));
        }
        self.named = true;
        match value::literal(value) {
            Some(Lit::Str(name)) if name.value().is_empty() => Err(syn::Error::new(
                name.span(),
                "the lock's name is empty; give it one, such as \"orders/create\"",
            )),
            Some(Lit::Str(name)) => {
                self.args.name = Some(name.clone());
                Ok(())
            }
            _ => Err(syn::Error::new_spanned(value, NAME)),
        }
    }

    /// Explains a word without a value: an option half written, or a name that is no literal.
    fn bare_word(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let word = input.fork().call(Ident::parse_any)?;
        let text = word.to_string();
        if OPTIONS.contains(&text.as_str()) && text != "crate" {
            self.announce(&word)?;
            return Err(syn::Error::new(word.span(), usage(&text)));
        }
        let alone = {
            let ahead = input.fork();
            ahead.call(Ident::parse_any)?;
            ahead.is_empty() || ahead.peek(Token![,])
        };
        if alone && self.named {
            return Err(self.unknown(&word));
        }
        let value = input.parse()?;
        self.name(&value)
    }
}

fn usage(option: &str) -> String {
    let example = match option {
        "timeout" => "timeout = \"2s\"",
        "retries" => "retries = 2",
        "session" => "session = \"orders\"",
        _ => "crate = ::zklock",
    };
    format!("`{option}` needs a value: `{example}`")
}
