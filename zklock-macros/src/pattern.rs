//! Names with values in them: `"order-{order_id}"`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Ident, Index, LitStr, Member, ext::IdentExt as _};

use crate::{errors::Errors, params::Params, suggest};

/// A part of a name.
pub(crate) enum Piece {
    Text(String),
    Value(Place),
}

/// What the values of a name can be.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// The parameters of a function, and fields in them.
    Params(&'a Params),
    /// Any variables: the compiler knows which there are.
    Variables,
}

impl Scope<'_> {
    /// Whether a name is that of a variable, as far as one can see: constants have capitals.
    pub(crate) fn binds(self, name: &Ident) -> bool {
        match self {
            Scope::Params(params) => params.bindings.contains(name),
            Scope::Variables => name.unraw().to_string().starts_with(char::is_lowercase),
        }
    }
}

/// A variable (`self` is one), or a field in it.
pub(crate) struct Place {
    root: Ident,
    fields: Vec<Member>,
}

/// Splits a name into its parts and finds the variables that they speak of.
pub(crate) fn parse(literal: &LitStr, scope: Scope<'_>, errors: &mut Errors) -> Vec<Piece> {
    let text = literal.value();
    let mut reader = Reader { literal, scope, errors, pieces: Vec::new() };
    reader.read(&text);
    reader.pieces
}

struct Reader<'a> {
    literal: &'a LitStr,
    scope: Scope<'a>,
    errors: &'a mut Errors,
    pieces: Vec<Piece>,
}

impl Reader<'_> {
    fn read(&mut self, mut rest: &str) {
        while let Some(at) = rest.find(['{', '}']) {
            let (text, braced) = rest.split_at(at);
            self.text(text);
            rest = if let Some(after) = braced.strip_prefix("{{") {
                self.text("{");
                after
            } else if let Some(after) = braced.strip_prefix("}}") {
                self.text("}");
                after
            } else if let Some(after) = braced.strip_prefix('{') {
                let Some((inside, after)) = after.split_once('}') else {
                    return self.error("a `{` has no `}`; for the character itself write `{{`");
                };
                self.value(inside);
                after
            } else {
                self.error("a `}` has no `{`; for the character itself write `}}`");
                &braced[1..]
            };
        }
        self.text(rest);
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn value(&mut self, inside: &str) {
        let inside = inside.trim();
        if inside.is_empty() {
            let what = self.what();
            return self.error(&format!(
                "`{{}}` names no {what}; write `{{order_id}}` or `{{self.tenant}}`"
            ));
        }
        if inside.contains("::") {
            let what = self.what();
            return self.error(&format!(
                "`{{{inside}}}` is neither a {what} nor a field of one; \
                 in a name, a constant is written as `key = {inside}`"
            ));
        }
        if inside.contains(':') {
            return self.error(&format!(
                "`{{{inside}}}`: a value takes no format; it is written with `Display`"
            ));
        }
        let mut words = inside.split('.').map(str::trim);
        let first = words.next().unwrap_or_default();
        let fields: Option<Vec<_>> = words.map(|word| self.member(word)).collect();
        let (Some(fields), true) = (fields, first == "self" || identifier(first).is_some()) else {
            let what = self.what();
            return self.error(&format!(
                "`{{{inside}}}` is neither a {what} nor a field of one; \
                 write `{{order_id}}`, `{{order.id}}` or `{{self.tenant}}`"
            ));
        };
        match self.root(first) {
            Ok(root) => self.pieces.push(Piece::Value(Place { root, fields })),
            Err(message) => self.error(&message),
        }
    }

    fn what(&self) -> &'static str {
        match self.scope {
            Scope::Params(_) => "parameter",
            Scope::Variables => "variable",
        }
    }

    fn root(&self, word: &str) -> Result<Ident, String> {
        let Scope::Params(Params { bindings, receiver, .. }) = self.scope else {
            let mut root =
                identifier(word).unwrap_or_else(|| Ident::new("self", Span::call_site()));
            root.set_span(self.literal.span());
            return Ok(root);
        };
        let plain = word.strip_prefix("r#").unwrap_or(word);
        if let Some(root) = bindings.iter().chain(receiver).find(|name| name.unraw() == plain) {
            let mut root = root.clone();
            // Resolved like the parameter, shown at the name.
            root.set_span(root.span().located_at(self.literal.span()));
            return Ok(root);
        }
        if word == "self" {
            return Err("`{self}`: the function has no `self`".to_owned());
        }
        let mut names: Vec<String> = bindings.iter().map(|b| b.unraw().to_string()).collect();
        // Such as `__arg1`, which `#[async_trait]` puts in place of a pattern.
        names.retain(|name| !name.starts_with("__"));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let guess = suggest::closest(word, &names)
            .map(|guess| format!("; did you mean `{{{guess}}}`?"))
            .unwrap_or_default();
        Err(match (names.as_slice(), receiver) {
            ([], None) => format!("`{{{word}}}` names no parameter: the function has none"),
            ([], Some(_)) => {
                format!("`{{{word}}}` names no parameter: the function has only `self`")
            }
            (names, _) => format!(
                "`{{{word}}}` names no parameter{guess} (the parameters are {})",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    fn member(&self, word: &str) -> Option<Member> {
        let span = self.literal.span();
        if let Ok(index) = word.parse() {
            return Some(Member::Unnamed(Index { index, span }));
        }
        identifier(word).map(|mut name| {
            name.set_span(span);
            Member::Named(name)
        })
    }

    fn error(&mut self, message: &str) {
        self.errors.push(syn::Error::new(self.literal.span(), message));
    }
}

/// Reads an identifier; a keyword becomes a raw one.
fn identifier(word: &str) -> Option<Ident> {
    syn::parse_str(word).or_else(|_| syn::parse_str(&format!("r#{word}"))).ok()
}

impl Place {
    /// The parameter.
    pub(crate) fn root(&self) -> &Ident {
        &self.root
    }
}

impl ToTokens for Place {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { root, fields } = self;
        tokens.extend(quote!(#root #(.#fields)*));
    }
}
