//! Which parameters an expression speaks of.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Ident, ext::IdentExt as _};

/// Says whether an expression names a parameter: as a word of its own, not as a field or a method, or
/// in the text of a format: `format!("{left}")`.
///
/// A word that means something else there is found, too; to borrow a parameter once more does no
/// harm.
pub(crate) fn mentions(expr: &impl ToTokens, name: &Ident) -> bool {
    among(expr.to_token_stream(), name)
}

fn among(tokens: TokenStream, name: &Ident) -> bool {
    let mut after_dot = false;
    tokens.into_iter().any(|token| {
        let member = std::mem::take(&mut after_dot);
        match token {
            TokenTree::Ident(word) => !member && word == *name,
            TokenTree::Group(group) => among(group.stream(), name),
            TokenTree::Punct(punct) => {
                after_dot = punct.as_char() == '.';
                false
            }
            TokenTree::Literal(literal) => in_format(&literal.to_string(), name),
        }
    })
}

/// `{left}`, `{left:?}` and `{0:left$}`, but not more exactly than needed: only the compiler knows
/// what a macro takes for a format.
fn in_format(text: &str, name: &Ident) -> bool {
    let name = name.unraw();
    let is_other = |c: char| !c.is_alphanumeric() && c != '_';
    text.contains('{') && text.split(is_other).any(|word| name == word)
}
