//! What is emitted when something is wrong: the mistakes, and the item as it was.

use proc_macro2::TokenStream;
use quote::quote;

/// Returns the expansion, unless there were mistakes.
///
/// The item is kept, so that compiler and editor go on knowing it and no other error follows. What
/// only the options read is not said to be unused while they are wrong.
pub(crate) fn unless(expansion: syn::Result<TokenStream>, item: TokenStream) -> TokenStream {
    expansion.unwrap_or_else(|mistakes| {
        let mut tokens = mistakes.to_compile_error();
        tokens.extend(quote!(#[allow(unused_variables)] #item));
        tokens
    })
}
