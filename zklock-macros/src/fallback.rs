//! What is emitted when something is wrong: the mistakes, and the function as it was.

use proc_macro2::TokenStream;

/// Keeps the function known to the compiler and the editor, so that no other error follows.
pub(crate) fn emit(errors: &syn::Error, item: TokenStream) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    tokens.extend(item);
    tokens
}
