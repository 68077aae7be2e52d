//! The whole name: the namespace before the pattern, the key behind it.

use proc_macro2::Span;
use syn::{Expr, ExprPath, Ident, LitStr};

use crate::{
    errors::Errors,
    pattern::{self, Piece, Place, Scope},
    value::{Given, Value},
};

/// The name of a lock, or the names of several that differ in their last segments.
pub(crate) struct Name {
    pub(crate) parts: Vec<Part>,
    /// What follows the parts: nothing, or one more segment for each lock.
    pub(crate) keys: Vec<Expr>,
    /// The namespace, if it is known when compiling.
    pub(crate) namespace: Option<LitStr>,
    /// The name as a pattern, as far as it is known when compiling; nothing of a constant.
    pub(crate) written: Option<LitStr>,
    /// The pattern, with `{name}` in the place of a constant.
    pub(crate) pattern: String,
}

/// A literal that is shown where another stands, but ours: it is no format string that somebody
/// forgot to format.
fn ours(text: String, place: &LitStr) -> LitStr {
    LitStr::new(&text, place.span().resolved_at(Span::mixed_site()))
}

/// A part of a name.
pub(crate) enum Part {
    Text(String),
    /// Text that is known only at run time.
    Prefix(Expr),
    /// A variable, or a field in it.
    Place(Place),
    /// Text that another constant has.
    Constant(ExprPath),
}

impl Name {
    /// Puts a name together; the three become segments.
    pub(crate) fn of(
        namespace: Option<&Value<LitStr>>,
        given: &Given,
        keys: Vec<Expr>,
        scope: Scope<'_>,
        errors: &mut Errors,
    ) -> Self {
        let (parts, pattern) = (Vec::new(), String::new());
        let mut name = Name { parts, keys, namespace: None, written: None, pattern };
        let mut written = match given {
            Given::Pattern(literal) => literal.value(),
            Given::Constant(_) => "{name}".to_owned(),
        };
        match namespace {
            None => {}
            Some(Value::Known(literal)) => {
                name.namespace = Some(ours(literal.value(), literal));
                let text = literal.value();
                name.text(&format!("{text}/"));
                written = format!("{text}/{written}");
            }
            Some(Value::Expression(text)) => {
                name.parts.push(Part::Prefix(text.clone()));
                name.text("/");
                written = format!("{{namespace}}/{written}");
            }
        }
        match given {
            Given::Pattern(literal) => {
                for piece in pattern::parse(literal, scope, errors) {
                    match piece {
                        Piece::Text(text) => name.text(&text),
                        Piece::Value(place) => name.parts.push(Part::Place(place)),
                    }
                }
            }
            Given::Constant(path) => {
                if let Some(name) = path.path.get_ident().filter(|name| scope.binds(name)) {
                    let message = format!(
                        "`{name}` is not a constant; a value is written in a literal: \"orders/{{{name}}}\""
                    );
                    errors.push(syn::Error::new(name.span(), message));
                }
                name.parts.push(Part::Constant(path.clone()));
            }
        }
        if !name.keys.is_empty() {
            name.text("/");
            written.push_str("/{key}");
        }
        if let Given::Pattern(literal) = given {
            name.written = Some(ours(written.clone(), literal));
        }
        name.pattern = written;
        name
    }

    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    /// Returns the whole text if the name has no values.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] if self.keys.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The parameters that it reads by a pattern.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Ident> {
        self.parts.iter().filter_map(|part| match part {
            Part::Place(place) => Some(place.root()),
            _ => None,
        })
    }

    /// The expressions in it.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let prefixes = self.parts.iter().filter_map(|part| match part {
            Part::Prefix(expr) => Some(expr),
            _ => None,
        });
        prefixes.chain(&self.keys)
    }
}
