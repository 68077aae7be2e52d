//! Which parameters an expression speaks of.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Ident;

/// Says whether an expression names a parameter: as a word of its own, not as a field or a method.
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
            TokenTree::Literal(_) => false,
        }
    })
}
