//! The function below the attribute; its body stays raw tokens.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, TokenStreamExt as _};
use syn::{
    AttrStyle, Attribute, Signature, Token, Visibility, braced,
    parse::{Parse, ParseStream},
    token::Brace,
};

use crate::mentions::mentions;

/// A function whose body may be something that `syn` does not understand (yet).
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Body,
}

/// The braces, the inner attributes and the statements.
pub(crate) struct Body {
    pub(crate) brace: Brace,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) tokens: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if let Some(error) = not_a_function(input) {
            return Err(error);
        }
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(syn::Error::new(
                sig.ident.span(),
                "a function without a body cannot be guarded; \
                 put #[zk_locked] on the implementation",
            ));
        }
        let content;
        let brace = braced!(content in input);
        let inner = content.call(Attribute::parse_inner)?;
        let body = Body { brace, attrs: inner, tokens: content.parse()? };
        Ok(Self { attrs, vis, sig, body })
    }
}

/// Explains the misplacement when the item is visibly something else.
fn not_a_function(input: ParseStream<'_>) -> Option<syn::Error> {
    let advice = if input.peek(Token![impl]) || input.peek(Token![trait]) {
        "put it on each method that needs the lock"
    } else if input.peek(Token![struct])
        || input.peek(Token![enum])
        || input.peek(Token![mod])
        || input.peek(Token![type])
        || input.peek(Token![static])
        || input.peek(Token![use])
    {
        "put it on a function or a method"
    } else {
        return None;
    };
    Some(input.error(format!("#[zk_locked] guards the body of a function; {advice}")))
}

/// Names the generated values.
pub(crate) fn internal(name: &str) -> Ident {
    Ident::new(&format!("__zklock_{name}"), Span::mixed_site())
}

impl Function {
    /// Whether another attribute of ours was here before, by whatever name and on whatever
    /// condition: the outer one is expanded first.
    pub(crate) fn is_guarded(&self) -> bool {
        mentions(&self.body.tokens, &internal("call"))
    }

    /// Writes the function with another signature and other statements; all else is kept.
    pub(crate) fn with(&self, sig: &Signature, statements: &TokenStream) -> TokenStream {
        let mut tokens = TokenStream::new();
        tokens.append_all(&self.attrs);
        self.vis.to_tokens(&mut tokens);
        sig.to_tokens(&mut tokens);
        self.body.brace.surround(&mut tokens, |tokens| {
            tokens.append_all(
                self.body.attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Inner(_))),
            );
            statements.to_tokens(tokens);
        });
        tokens
    }

    /// The place that stands for the result: the return type, or the name where there is none.
    pub(crate) fn result_span(&self) -> Span {
        match &self.sig.output {
            syn::ReturnType::Type(_, ty) => {
                ty.to_token_stream().into_iter().next().map_or(self.sig.ident.span(), |t| t.span())
            }
            syn::ReturnType::Default => self.sig.ident.span(),
        }
    }
}
