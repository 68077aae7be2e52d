//! Options as they were written, each with its place in the source.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Expr, Ident, Lit, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use crate::{
    choice::{self, OnBusy},
    errors::Errors,
    lock_options::{self, LockOptions, Setting},
    mode::{self, Mode},
    options,
    value::{self, Given, Value},
};

/// The options of one attribute, valid each for itself.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Option<Given>,
    /// More than one of them are as many locks.
    pub(crate) keys: Vec<Expr>,
    pub(crate) namespace: Option<Value<LitStr>>,
    pub(crate) label: Option<Value<LitStr>>,
    pub(crate) on_busy: Option<OnBusy>,
    pub(crate) on_error: Option<Expr>,
    pub(crate) map_err: Option<Expr>,
    pub(crate) settings: Settings,
    pub(crate) krate: Option<Path>,
    /// The options met so far, the wrong ones included.
    seen: Vec<Ident>,
}

/// How the lock is taken.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) mode: Option<Mode>,
    pub(crate) try_once: Option<Value<bool>>,
    pub(crate) condition: Option<Expr>,
    pub(crate) lock: LockOptions,
    pub(crate) options: Option<Expr>,
    pub(crate) session: Option<Expr>,
    pub(crate) driver: Option<Expr>,
}

impl Args {
    /// Where an option stands.
    pub(crate) fn place(&self, option: &str) -> Span {
        let seen = self.seen.iter().find(|seen| *seen == option);
        seen.map_or_else(Span::call_site, Ident::span)
    }
}

/// Reads the options; a mistake in one does not hide those in the others.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut reader = Reader { args: Args::default(), named: false, errors };
    let parsed = (|input: ParseStream<'_>| reader.read(input)).parse2(tokens);
    let Reader { args, named, errors } = reader;
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
        // `a == b` begins with an `=`, too, and is no option.
        let assigns = input.peek2(Token![=]) && !input.peek2(Token![==]);
        if input.peek(Ident::peek_any) && assigns {
            let option = Ident::parse_any(input)?;
            input.parse::<Token![=]>()?;
            let known = self.announce(&option);
            if input.is_empty() || input.peek(Token![,]) {
                known?;
                return Err(syn::Error::new(option.span(), options::usage(&option.to_string())));
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
        if !options::is_known(&word) {
            return Err(self.unknown(option));
        }
        if self.args.seen.contains(option) && !options::is_repeatable(&word) {
            return Err(syn::Error::new(
                option.span(),
                format!("`{word}` is given twice; keep one of them"),
            ));
        }
        self.args.seen.push(option.clone());
        Ok(())
    }

    fn unknown(&mut self, option: &Ident) -> syn::Error {
        let word = option.to_string();
        let message = if options::is_name(&word) {
            // The name is there, only in another form: it is not missing.
            self.named = true;
            format!(
                "the lock's name is given without `{word} =`: `#[zk_locked(\"orders/create\")]`"
            )
        } else {
            options::unknown(&word)
        };
        syn::Error::new(option.span(), message)
    }

    fn option(&mut self, option: &str, value: Expr) -> syn::Result<()> {
        let args = &mut self.args;
        match option {
            "key" => args.keys.push(value::key(value, &args.keys)?),
            "mode" => args.settings.mode = Some(mode::read(value)?),
            "namespace" => args.namespace = Some(value::namespace(value)?),
            "try_once" => args.settings.try_once = Some(choice::flag(option, value)?),
            "on_busy" => args.on_busy = Some(choice::on_busy(value)?),
            "on_error" => args.on_error = Some(choice::on_failure(option, value)?),
            "map_err" => args.map_err = Some(choice::on_failure(option, value)?),
            "condition" => args.settings.condition = Some(choice::condition(value)?),
            "label" => args.label = Some(value::label(value)?),
            "options" => args.settings.options = Some(value::options(value)?),
            "session" => args.settings.session = Some(value::session(value)?),
            "driver" => args.settings.driver = Some(value::driver(value)?),
            "crate" => args.krate = Some(value::krate(&value)?),
            _ => args.settings.lock.set(option, lock_options::read(option, value)?),
        }
        Ok(())
    }

    fn name(&mut self, value: &Expr) -> syn::Result<()> {
        if self.named {
            let message = match value::literal(value) {
                Some(Lit::Str(_)) => {
                    "the lock's name is given twice; a second part of it is a `key = …`"
                }
                _ => "this is not an option; one is written like `timeout = \"2s\"` or `try_once`",
            };
            return Err(syn::Error::new_spanned(value, message));
        }
        self.named = true;
        self.args.name = Some(value::name(value)?);
        Ok(())
    }

    /// Reads a word without a value: a flag, an option half written, or a name that is no literal.
    fn bare_word(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let word = input.fork().call(Ident::parse_any)?;
        let text = word.to_string();
        let alone = {
            let ahead = input.fork();
            ahead.call(Ident::parse_any)?;
            ahead.is_empty() || ahead.peek(Token![,])
        };
        if alone && options::is_flag(&text) {
            input.call(Ident::parse_any)?;
            self.announce(&word)?;
            let (flag, settings) = (Value::Known(true), &mut self.args.settings);
            match text.as_str() {
                "try_once" => settings.try_once = Some(flag),
                option => settings.lock.set(option, Setting::Flag(flag)),
            }
            return Ok(());
        }
        if options::is_known(&text) && text != "crate" {
            self.announce(&word)?;
            return Err(syn::Error::new(word.span(), options::usage(&text)));
        }
        if alone && self.named {
            return Err(self.unknown(&word));
        }
        let value = input.parse()?;
        self.name(&value)
    }
}
