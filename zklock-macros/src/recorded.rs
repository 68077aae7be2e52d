//! Parameters of which an attribute below would record what their patterns leave out.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta};

use crate::{errors::Errors, item::Function, params};

const WHOLE: &str = "#[instrument] would record the whole parameter, and with it what this pattern leaves \
    out: below #[zk_locked] it sees one name in place of the pattern; put #[instrument] above \
    #[zk_locked], or write `skip_all` in it";

/// Refuses them: secrets would be in the log.
pub(crate) fn refuse(function: &Function, errors: &mut Errors) {
    if function.attrs.iter().any(records) {
        for pattern in params::replaced(&function.sig) {
            errors.push(syn::Error::new_spanned(pattern, WHOLE));
        }
    }
}

/// Recognises `#[tracing::instrument]`, by whatever path, unless it skips everything.
fn records(attr: &Attribute) -> bool {
    let is_instrument = attr.path().segments.last().is_some_and(|last| last.ident == "instrument");
    is_instrument
        && match &attr.meta {
            Meta::List(list) => !skips_all(&list.tokens),
            _ => true,
        }
}

fn skips_all(options: &TokenStream) -> bool {
    let is = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "skip_all");
    options.clone().into_iter().any(|token| is(&token))
}
