//! `lock_name!`: the name of a lock by the attribute's rules, where there is no attribute.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Expr, Ident, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{Parse, ParseStream},
    parse_quote,
};

use crate::{
    call::{check, filled},
    errors::Errors,
    name::Name,
    pattern::Scope,
    value::{self, Given, Value},
};

/// What is in the parentheses.
struct Asked {
    name: Given,
    namespace: Option<Value<LitStr>>,
    key: Option<Expr>,
    krate: Option<Path>,
}

/// Writes the name, or what is wrong with it in the place of one.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let asked = errors.catch(syn::parse2::<Asked>(input));
    let krate = asked.as_ref().and_then(|asked| asked.krate.clone());
    let krate = krate.unwrap_or_else(|| parse_quote!(::zklock));
    let private = parse_quote!(#krate::__private);
    let name = asked.map(|Asked { name, namespace, key, .. }| {
        let keys = Vec::from_iter(key);
        Name::of(namespace.as_ref(), &name, keys, Scope::Variables, &mut errors)
    });
    match (errors.finish(), name) {
        (Ok(()), Some(name)) => {
            let (check, filled) = (check(&name, &private), filled(&name, &private));
            quote!({ #check #filled.made() })
        }
        // Of the right type, so that no other error follows.
        (Err(mistakes), _) => {
            let mistakes = mistakes.to_compile_error();
            quote!({ #mistakes #private::Name::constant("").build().made() })
        }
        (Ok(()), None) => quote!(#private::Name::constant("").build().made()),
    }
}

impl Parse for Asked {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.is_empty() {
            let missing = "the lock's name is missing: `lock_name!(\"orders/{id}\")`";
            return Err(syn::Error::new(Span::call_site(), missing));
        }
        let name = value::name(&input.parse()?)?;
        let mut asked = Asked { name, namespace: None, key: None, krate: None };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            asked.option(input)?;
        }
        Ok(asked)
    }
}

impl Asked {
    fn option(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let option = input.call(Ident::parse_any)?;
        let word = option.to_string();
        let given = match word.as_str() {
            "namespace" => self.namespace.is_some(),
            "key" => self.key.is_some(),
            "crate" => self.krate.is_some(),
            _ => {
                return Err(syn::Error::new(
                    option.span(),
                    format!(
                        "`{word}` is not an option of `lock_name!`, which takes `namespace`, `key` and \
                         `crate`"
                    ),
                ));
            }
        };
        if given {
            return Err(syn::Error::new(
                option.span(),
                format!(
                    "`{word}` is given twice, and `lock_name!` takes one; write more values into the name"
                ),
            ));
        }
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        match word.as_str() {
            "namespace" => self.namespace = Some(value::namespace(value)?),
            "key" => self.key = Some(value::key(value, &[])?),
            _ => self.krate = Some(value::krate(&value)?),
        }
        Ok(())
    }
}
