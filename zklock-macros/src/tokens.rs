//! What can be told of tokens that are not parsed.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// Lists each `return` in the tokens that does not belong to an async block among them.
///
/// One in a closure is listed, too: only the macro that takes the tokens knows what becomes of it.
pub(crate) fn returns(tokens: TokenStream) -> Vec<Ident> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "return" => found.push(word.clone()),
            TokenTree::Group(group) if !ends_with_async(&tokens[..at]) => {
                found.extend(returns(group.stream()));
            }
            _ => {}
        }
    }
    found
}

/// Whether a block that follows is an async block.
pub(crate) fn ends_with_async(tokens: &[TokenTree]) -> bool {
    let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(i) if i == word);
    match tokens {
        [.., first, last] if is(last, "move") => is(first, "async"),
        [.., last] => is(last, "async"),
        [] => false,
    }
}

/// Whether a body ends with an async block, bare or on its way into a box.
pub(crate) fn ends_with_block(body: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    is_block(&tokens)
}

fn is_block(tokens: &[TokenTree]) -> bool {
    use TokenTree::{Group, Ident, Punct};
    match tokens {
        [before @ .., Punct(dot), Ident(boxed), Group(_)]
            if dot.as_char() == '.' && (boxed == "boxed" || boxed == "boxed_local") =>
        {
            is_block(before)
        }
        [before @ .., Punct(comma)] if comma.as_char() == ',' => is_block(before),
        [.., Ident(pin), Group(argument)] if pin == "pin" => ends_with_block(argument.stream()),
        // What a macro puts in the place of `$body:expr`.
        [.., Group(whole)] if whole.delimiter() == Delimiter::None => {
            ends_with_block(whole.stream())
        }
        [before @ .., Group(block)] if block.delimiter() == Delimiter::Brace => {
            ends_with_async(before)
        }
        _ => false,
    }
}
