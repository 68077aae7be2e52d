//! Return types: what can be written in a `let`, and what is visibly a future.

use proc_macro2::Span;
use syn::{
    AngleBracketedGenericArguments, GenericArgument, Ident, Path, PathArguments, PathSegment,
    ReturnType, Type, TypeInfer, TypeParamBound, TypePath, TypeTuple, parse_quote,
    parse_quote_spanned, punctuated::Punctuated, token::Paren,
};

use crate::mentions::mentions;

/// Returns the type that a function's body has, `()` without one.
pub(crate) fn of(output: &ReturnType, place: Span) -> Type {
    match output {
        ReturnType::Type(_, ty) => (**ty).clone(),
        ReturnType::Default => {
            Type::Tuple(TypeTuple { paren_token: Paren(place), elems: Punctuated::new() })
        }
    }
}

/// Says whether a function never returns.
pub(crate) fn is_never(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_)))
}

/// Returns the type as it can be written wherever a type is asked for.
pub(crate) fn written(ty: &Type, private: &Path) -> Type {
    match ty {
        // By itself, `!` is accepted only behind an arrow.
        Type::Never(never) => parse_quote_spanned! {never.bang_token.span=>
            <fn() -> ! as #private::Returns>::Output
        },
        ty => without_impl(ty),
    }
}

/// Returns the type with `_` in place of each `impl Trait`, which a `let` does not accept.
pub(crate) fn without_impl(ty: &Type) -> Type {
    let mut ty = ty.clone();
    erase(&mut ty);
    ty
}

fn erase(ty: &mut Type) {
    match ty {
        Type::ImplTrait(opaque) => {
            let underscore_token = parse_quote_spanned!(opaque.impl_token.span=> _);
            *ty = Type::Infer(TypeInfer { underscore_token });
        }
        Type::Array(array) => erase(&mut array.elem),
        Type::Group(group) => erase(&mut group.elem),
        Type::Paren(paren) => erase(&mut paren.elem),
        Type::Ptr(pointer) => erase(&mut pointer.elem),
        Type::Reference(reference) => erase(&mut reference.elem),
        Type::Slice(slice) => erase(&mut slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(erase),
        Type::TraitObject(object) => {
            for bound in &mut object.bounds {
                if let TypeParamBound::Trait(bound) = bound {
                    erase_in(&mut bound.path);
                }
            }
        }
        Type::Path(path) => erase_in(&mut path.path),
        _ => {}
    }
}

fn erase_in(path: &mut Path) {
    for segment in &mut path.segments {
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
            for argument in &mut arguments.args {
                match argument {
                    GenericArgument::Type(ty) => erase(ty),
                    GenericArgument::AssocType(assoc) => erase(&mut assoc.ty),
                    _ => {}
                }
            }
        }
    }
}

/// Says whether a value of the type is, or visibly carries, work that is not done yet: a future or a
/// stream, or a closure that makes one. What another name hides is not seen. An iterator is taken for
/// values that are there, and any other closure for a value.
pub(crate) fn is_lazy(ty: &Type) -> bool {
    carries(
        ty,
        &["BoxFuture", "LocalBoxFuture", "BoxStream", "LocalBoxStream"],
        &[
            "AsyncFn",
            "AsyncFnMut",
            "AsyncFnOnce",
            "Future",
            "FusedFuture",
            "IntoFuture",
            "TryFuture",
            "Stream",
            "FusedStream",
            "TryStream",
            "AsyncIterator",
        ],
    )
}

/// Says whether a value of the type is, or visibly carries, a future.
pub(crate) fn is_future(ty: &Type) -> bool {
    carries(ty, &["BoxFuture", "LocalBoxFuture"], &["Future"])
}

/// Says whether a type, or one in it, has one of the names or is known by one of the traits.
fn carries(ty: &Type, names: &[&str], traits: &[&str]) -> bool {
    let inner = |ty: &Type| carries(ty, names, traits);
    let returned = |output: &ReturnType| match output {
        ReturnType::Type(_, ty) => inner(ty),
        ReturnType::Default => false,
    };
    let inside = |segment: &PathSegment| match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().any(|argument| match argument {
                GenericArgument::Type(ty) => inner(ty),
                GenericArgument::AssocType(assoc) => inner(&assoc.ty),
                _ => false,
            })
        }
        PathArguments::Parenthesized(closure) => returned(&closure.output),
        PathArguments::None => false,
    };
    let bounded = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.iter().any(inside)
                || bound.path.segments.last().is_some_and(|t| traits.iter().any(|n| t.ident == n))
        }
        _ => false,
    };
    match ty {
        Type::Array(array) => inner(&array.elem),
        Type::BareFn(pointer) => returned(&pointer.output),
        Type::Group(group) => inner(&group.elem),
        Type::Paren(paren) => inner(&paren.elem),
        Type::Ptr(pointer) => inner(&pointer.elem),
        Type::Reference(reference) => inner(&reference.elem),
        Type::Slice(slice) => inner(&slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter().any(inner),
        Type::ImplTrait(opaque) => opaque.bounds.iter().any(bounded),
        Type::TraitObject(object) => object.bounds.iter().any(bounded),
        Type::Path(path) => {
            let segments = &path.path.segments;
            // As in `Self::Future` of a service; the name of a module begins with a small letter.
            let is_type =
                |first: &PathSegment| first.ident.to_string().starts_with(char::is_uppercase);
            let of_trait = path.qself.is_some()
                || segments.len() == 2 && segments.first().is_some_and(is_type);
            let is_one = |names: &[&str]| {
                segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
            };
            is_one(names) || of_trait && is_one(traits) || segments.iter().any(inside)
        }
        _ => false,
    }
}

/// Returns the type that a future resolves to, as far as it can be written down: as the type says
/// it, or as that of whatever the type is another name of.
pub(crate) fn resolved(future: &Type, private: &Path) -> Option<Type> {
    if let Some(output) = future_output(future) {
        return Some(without_impl(output));
    }
    let opaque = mentions(future, &Ident::new("impl", Span::call_site()));
    (!opaque).then(|| parse_quote!(<#future as #private::std::future::Future>::Output))
}

/// Returns what the future resolves to, if the type says so.
pub(crate) fn future_output(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Group(group) => future_output(&group.elem),
        Type::Paren(paren) => future_output(&paren.elem),
        Type::ImplTrait(opaque) => opaque.bounds.iter().find_map(future_bound).and_then(output),
        Type::TraitObject(object) => object.bounds.iter().find_map(future_bound).and_then(output),
        Type::Path(TypePath { path, .. }) => {
            let last = path.segments.last()?;
            let mut types = types(arguments(last)?);
            match boxed(last) {
                Some(()) => types.next(),
                None => types.find_map(future_output),
            }
        }
        _ => None,
    }
}

/// Recognises `BoxFuture<'_, T>` and its like by their names.
fn boxed(segment: &PathSegment) -> Option<()> {
    (segment.ident == "BoxFuture" || segment.ident == "LocalBoxFuture").then_some(())
}

fn future_bound(bound: &TypeParamBound) -> Option<&PathSegment> {
    match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().filter(|last| last.ident == "Future")
        }
        _ => None,
    }
}

fn output(future: &PathSegment) -> Option<&Type> {
    arguments(future)?.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
        _ => None,
    })
}

fn arguments(segment: &PathSegment) -> Option<&AngleBracketedGenericArguments> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    }
}

fn types(arguments: &AngleBracketedGenericArguments) -> impl Iterator<Item = &Type> {
    arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use quote::ToTokens as _;

    use super::*;

    #[test]
    fn work_that_is_not_done_is_seen_wherever_it_is() {
        let lazy: [Type; 6] = [
            parse_quote!(Result<Box<dyn Fn() -> BoxFuture<'static, ()>>, E>),
            parse_quote!(Result<impl FnOnce(u64) -> Pin<Box<dyn Future<Output = ()>>>, E>),
            parse_quote!(Result<fn() -> BoxStream<'static, ()>, E>),
            parse_quote!(Box<dyn Fn() -> Box<dyn Fn() -> BoxFuture<'static, ()>>>),
            parse_quote!(Result<impl AsyncFn(), E>),
            parse_quote!(Option<impl Stream<Item = ()>>),
        ];
        assert!(lazy.iter().all(is_lazy));
    }

    #[test]
    fn what_a_trait_calls_a_future_is_one() {
        let futures: [Type; 2] =
            [parse_quote!(Self::Future), parse_quote!(<Self as Service<R>>::Future)];
        assert!(futures.iter().all(|future| is_future(future) && is_lazy(future)));
        assert!(is_lazy(&parse_quote!(Result<<T as Feed>::Stream, E>)));
        assert!(
            is_lazy(&parse_quote!(Result<T::Stream, E>)) && is_future(&parse_quote!(S::Future))
        );
    }

    #[test]
    fn values_and_what_takes_work_are_not_lazy() {
        let values: [Type; 8] = [
            parse_quote!(Result<Stream, E>),
            parse_quote!(Result<Vec<models::Future>, E>),
            // Its work has begun, and the function may wait for it.
            parse_quote!(Result<JoinHandle<()>, E>),
            parse_quote!(Result<Box<dyn Fn() -> u64>, E>),
            parse_quote!(Result<Box<dyn Fn(BoxFuture<'static, ()>)>, E>),
            parse_quote!(Result<fn(JoinHandle<()>) -> u64, E>),
            parse_quote!(Result<impl Iterator<Item = u64>, E>),
            parse_quote!(Result<Later, E>),
        ];
        assert!(!values.iter().any(is_lazy));
    }

    #[test]
    fn no_impl_stays_in_what_a_let_is_given() {
        let types: [(Type, Type); 3] = [
            (
                parse_quote!(Result<Box<dyn Iterator<Item = impl Display>>, E>),
                parse_quote!(Result<Box<dyn Iterator<Item = _>>, E>),
            ),
            (
                parse_quote!(Box<dyn Into<impl Display> + Send>),
                parse_quote!(Box<dyn Into<_> + Send>),
            ),
            (parse_quote!((impl Display, [impl Display; 2])), parse_quote!((_, [_; 2]))),
        ];
        for (written, erased) in types {
            let written = without_impl(&written).to_token_stream().to_string();
            assert_eq!(written, erased.to_token_stream().to_string());
        }
    }
}
