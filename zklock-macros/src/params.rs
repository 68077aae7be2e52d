//! Parameters: rebound inside the guarded block, so that they drop before the release.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Expr, FnArg, Ident, Local, LocalInit, Meta, Pat, PatIdent, PatType, Signature, Stmt,
    Token,
    ext::IdentExt as _,
    parse_quote,
    spanned::Spanned as _,
    visit::{self, Visit},
};

/// What a body can name, and how its owners move into the guarded block.
pub(crate) struct Params {
    /// The signature to emit.
    pub(crate) sig: Signature,
    /// One statement for each name, in the order of the parameters: the drop order stays.
    pub(crate) rebinds: Vec<TokenStream>,
    /// The names that the parameters bind.
    pub(crate) bindings: Vec<Ident>,
    /// `self`, if there is one.
    pub(crate) receiver: Option<Ident>,
    /// How a name reads what is taken apart only inside.
    pub(crate) peeks: Vec<Peek>,
}

/// Names that do not exist outside the guarded block, and the statement that borrows them there.
pub(crate) struct Peek {
    pub(crate) whole: Ident,
    pub(crate) bindings: Vec<Ident>,
    pub(crate) statement: TokenStream,
}

/// Splits the signature's parameters into what stays outside and what is done inside.
pub(crate) fn split(sig: &Signature) -> Params {
    let mut params = Params {
        sig: sig.clone(),
        rebinds: Vec::new(),
        bindings: Vec::new(),
        receiver: None,
        peeks: Vec::new(),
    };
    let mut inputs = std::mem::take(&mut params.sig.inputs);
    for (index, input) in inputs.iter_mut().enumerate() {
        match input {
            FnArg::Receiver(receiver) => {
                params.receiver = Some(Ident::new("self", receiver.self_token.span))
            }
            FnArg::Typed(param) => params.typed(index, param),
        }
    }
    params.sig.inputs = inputs;
    params
}

/// Lists the patterns in whose places the signature has one name.
pub(crate) fn replaced(sig: &Signature) -> impl Iterator<Item = &Pat> {
    sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(param) if !leaves_nothing_behind(&param.pat) => Some(&*param.pat),
        _ => None,
    })
}

impl Peek {
    fn of(attrs: &[Attribute], mut pat: Pat, whole: &Ident) -> Self {
        let bindings = bindings(&pat);
        borrow(&mut pat);
        let statement = quote!(#(#attrs)* #[allow(unused_variables)] let #pat = &#whole;);
        Self { whole: whole.clone(), bindings, statement }
    }
}

impl Params {
    /// Reads the patterns from the statements of a function whose signature stays as it is.
    ///
    /// What the signature binds can be named without help. `#[async_trait]` moves the patterns of
    /// owned parameters into its block.
    pub(crate) fn taken_apart_in(&mut self, stmts: &[Stmt]) {
        self.peeks.clear();
        let mut reader = Moved(self);
        stmts.iter().for_each(|stmt| reader.visit_stmt(stmt));
    }

    /// Whether a name exists only where it is borrowed for the name of the lock.
    pub(crate) fn is_borrowed(&self, name: &Ident) -> bool {
        self.peeks.iter().any(|peek| peek.bindings.contains(name))
    }

    fn typed(&mut self, index: usize, param: &mut PatType) {
        let bindings = bindings(&param.pat);
        let mut attrs = statement_attrs(&mut param.attrs);
        if leaves_nothing_behind(&param.pat) {
            let mutable = take_mutability(&mut param.pat);
            if bindings.len() > 1 {
                attrs.iter_mut().for_each(allow_expected);
            }
            for ident in &bindings {
                let mutability = mutable.iter().find(|(name, _)| name == ident).map(|(_, m)| m);
                let allow = allow(ident);
                let let_ = Token![let](Span::mixed_site());
                self.rebinds.push(quote!(#(#attrs)* #allow #let_ #mutability #ident = #ident;));
            }
        } else {
            // What the pattern does not bind would stay in the parameter, and drop too late.
            let whole = format_ident!("__zklock_arg{index}", span = Span::mixed_site());
            let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
            self.rebinds.push(quote!(#(#cfgs)* let #whole = #whole;));
            let pat = std::mem::replace(&mut *param.pat, parse_quote!(#whole));
            if !matches!(pat, Pat::Wild(_)) {
                let span = pat.span();
                self.rebinds.push(quote_spanned!(span=> #(#attrs)* let #pat = #whole;));
                attrs.iter_mut().for_each(allow_expected);
                self.peeks.push(Peek::of(&attrs, pat, &whole));
            }
        }
        self.bindings.extend(bindings);
    }
}

/// Silences what clippy says about rebinding a name that begins with an underscore.
fn allow(name: &Ident) -> Option<TokenStream> {
    name.to_string().starts_with('_').then(
        || quote!(#[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]),
    )
}

/// Returns the attributes that a statement for the parameter needs.
///
/// `cfg` stays on both; a lint level moves, because what it speaks of has moved.
fn statement_attrs(attrs: &mut Vec<Attribute>) -> Vec<Attribute> {
    let is = |attr: &Attribute, names: &[&str]| names.iter().any(|n| attr.path().is_ident(n));
    let lint = |attr: &Attribute| is(attr, &["allow", "expect", "warn", "deny", "forbid"]);
    let copied = attrs.iter().filter(|attr| lint(attr) || is(attr, &["cfg"])).cloned().collect();
    attrs.retain(|attr| !lint(attr));
    copied
}

/// Makes an `allow` of an `expect`, for a copy in which what is expected need not be.
fn allow_expected(attr: &mut Attribute) {
    if attr.path().is_ident("expect")
        && let Meta::List(list) = &mut attr.meta
    {
        list.path = parse_quote!(allow);
    }
}

/// Lists the names that a pattern binds.
pub(crate) fn bindings(pat: &Pat) -> Vec<Ident> {
    let mut names: Vec<Ident> = Vec::new();
    visit(&mut pat.clone(), &mut |pat| {
        // Every case of an alternative binds the same names.
        if let Pat::Ident(binding) = pat
            && !names.contains(&binding.ident)
        {
            names.push(binding.ident.clone());
        }
    });
    names
}

/// Says whether the names of a pattern own everything that the parameter owned.
///
/// Of a type that implements `Drop`, names can only be copies: such a parameter stays outside, and drops after
/// the release. No macro sees that, and what is bound inside only is not there for the options.
fn leaves_nothing_behind(pat: &Pat) -> bool {
    match pat {
        Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, ident, .. }) => {
            !may_be_a_value(ident)
        }
        Pat::Ident(PatIdent { by_ref: None, subpat: None, .. }) => true,
        // The parameter is a reference: it owns nothing.
        Pat::Reference(_) => true,
        Pat::Paren(paren) => leaves_nothing_behind(&paren.pat),
        Pat::Slice(slice) => slice.elems.iter().all(leaves_nothing_behind),
        Pat::Struct(fields) => {
            fields.rest.is_none()
                && !fields.fields.is_empty()
                && fields.fields.iter().all(|field| leaves_nothing_behind(&field.pat))
        }
        Pat::Tuple(tuple) => tuple.elems.iter().all(leaves_nothing_behind),
        Pat::TupleStruct(tuple) => {
            !tuple.elems.is_empty() && tuple.elems.iter().all(leaves_nothing_behind)
        }
        _ => false,
    }
}

/// Whether a name in a pattern looks like that of a unit struct, which binds nothing: `Unit: Unit`.
fn may_be_a_value(name: &Ident) -> bool {
    name.unraw().to_string().starts_with(char::is_uppercase)
}

/// Takes every `mut` out of a pattern that stays in the signature.
fn take_mutability(pat: &mut Pat) -> Vec<(Ident, Token![mut])> {
    let mut taken = Vec::new();
    visit(pat, &mut |pat| {
        if let Pat::Ident(binding) = pat
            && let Some(mutability) = binding.mutability.take()
        {
            taken.push((binding.ident.clone(), mutability));
        }
    });
    taken
}

/// Makes a pattern of the parameter one of a reference to it: every name is a reference.
fn borrow(pat: &mut Pat) {
    visit(pat, &mut |pat| match pat {
        Pat::Ident(binding) => {
            binding.by_ref = None;
            binding.mutability = None;
        }
        Pat::Reference(reference) => *pat = (*reference.pat).clone(),
        _ => {}
    });
}

/// Visits a pattern and then its parts.
fn visit(pat: &mut Pat, visitor: &mut impl FnMut(&mut Pat)) {
    visitor(pat);
    match pat {
        Pat::Ident(PatIdent { subpat: Some((_, pat)), .. }) => visit(pat, visitor),
        Pat::Or(or) => or.cases.iter_mut().for_each(|pat| visit(pat, visitor)),
        Pat::Paren(paren) => visit(&mut paren.pat, visitor),
        Pat::Reference(reference) => visit(&mut reference.pat, visitor),
        Pat::Slice(slice) => slice.elems.iter_mut().for_each(|pat| visit(pat, visitor)),
        Pat::Struct(it) => it.fields.iter_mut().for_each(|field| visit(&mut field.pat, visitor)),
        Pat::Tuple(tuple) => tuple.elems.iter_mut().for_each(|pat| visit(pat, visitor)),
        Pat::TupleStruct(tuple) => tuple.elems.iter_mut().for_each(|pat| visit(pat, visitor)),
        // In a `let`.
        Pat::Type(typed) => visit(&mut typed.pat, visitor),
        _ => {}
    }
}

/// Takes note of each `let (left, right) = { let __arg1 = __arg1; __arg1 };` of a parameter.
struct Moved<'a>(&'a mut Params);

impl Visit<'_> for Moved<'_> {
    fn visit_local(&mut self, local: &Local) {
        let value = local.init.as_ref().map(|init: &LocalInit| &*init.expr);
        let Some(Expr::Block(block)) = value else { return visit::visit_local(self, local) };
        let [Stmt::Local(_), Stmt::Expr(Expr::Path(whole), None)] = block.block.stmts.as_slice()
        else {
            return visit::visit_local(self, local);
        };
        let whole = whole.path.get_ident().filter(|name| name.to_string().starts_with("__arg"));
        if let Some(whole) = whole.filter(|whole| self.0.bindings.contains(whole)) {
            let peek = Peek::of(&[], local.pat.clone(), whole);
            self.0.bindings.extend(peek.bindings.iter().cloned());
            self.0.peeks.push(peek);
        }
    }
}
