//! What the attribute expands to, option by option.
//!
//! What is expanded is in `zklock-macros/expansions`, which `zklock-macros/options.md` shows, and what comes
//! of it in `tests/attribute/expansions`. With `BLESS=1` in the environment the latter are written anew.

#![allow(missing_docs)]

use std::{env, fs, path::Path};

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Item, ItemFn, Meta};

// A macro crate cannot be called; its modules can be compiled into the test.
#[path = "../../../zklock-macros/src/args.rs"]
mod args;
#[path = "../../../zklock-macros/src/call.rs"]
mod call;
#[path = "../../../zklock-macros/src/choice.rs"]
mod choice;
#[path = "../../../zklock-macros/src/errors.rs"]
mod errors;
#[path = "../../../zklock-macros/src/expand.rs"]
mod expand;
#[path = "../../../zklock-macros/src/fallback.rs"]
mod fallback;
#[path = "../../../zklock-macros/src/item.rs"]
mod item;
#[path = "../../../zklock-macros/src/lock_name.rs"]
mod lock_name;
#[path = "../../../zklock-macros/src/lock_options.rs"]
mod lock_options;
#[path = "../../../zklock-macros/src/mentions.rs"]
mod mentions;
#[path = "../../../zklock-macros/src/mode.rs"]
mod mode;
#[path = "../../../zklock-macros/src/model.rs"]
mod model;
#[path = "../../../zklock-macros/src/name.rs"]
mod name;
#[path = "../../../zklock-macros/src/options.rs"]
mod options;
#[path = "../../../zklock-macros/src/params.rs"]
mod params;
#[path = "../../../zklock-macros/src/pattern.rs"]
mod pattern;
#[path = "../../../zklock-macros/src/recorded.rs"]
mod recorded;
#[path = "../../../zklock-macros/src/returns.rs"]
mod returns;
#[path = "../../../zklock-macros/src/shadow.rs"]
mod shadow;
#[path = "../../../zklock-macros/src/shape.rs"]
mod shape;
#[path = "../../../zklock-macros/src/suggest.rs"]
mod suggest;
#[path = "../../../zklock-macros/src/tokens.rs"]
mod tokens;
#[path = "../../../zklock-macros/src/unseen.rs"]
mod unseen;
#[path = "../../../zklock-macros/src/value.rs"]
mod value;

fn locked(args: TokenStream, item: TokenStream) -> TokenStream {
    fallback::unless(model::plan(args, item.clone()).map(|plan| expand::expand(&plan)), item)
}

/// Expands the attribute on each function of a file.
fn expanded(source: &str) -> String {
    let mut file = syn::parse_file(source).unwrap();
    file.items = file.items.into_iter().flat_map(|item| expanded_item(item).items).collect();
    prettyplease::unparse(&file)
}

fn expanded_item(item: Item) -> syn::File {
    let Item::Fn(mut function) = item else { panic!("only functions are expanded") };
    let tokens = match take_attribute(&mut function) {
        Some(args) => locked(args, function.to_token_stream()),
        None => function.to_token_stream(),
    };
    syn::parse2(tokens).unwrap()
}

fn take_attribute(function: &mut ItemFn) -> Option<TokenStream> {
    let is_ours = |attr: &Attribute| attr.path().is_ident("zk_locked");
    let at = function.attrs.iter().position(is_ours)?;
    match function.attrs.remove(at).meta {
        Meta::List(list) => Some(list.tokens),
        _ => Some(TokenStream::new()),
    }
}

#[test]
fn expansions_are_the_documented_ones() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in fs::read_dir(here.join("../../zklock-macros/expansions")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".rs") {
            continue;
        }
        let expected = here.join("expansions").join(name);
        let actual = expanded(&fs::read_to_string(&path).unwrap());
        if env::var_os("BLESS").is_some() {
            fs::write(&expected, &actual).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap();
        assert_eq!(actual, expected, "{name} expands to something else");
        seen += 1;
    }
    assert!(seen > 8, "only {seen} files");
    assert_eq!(fs::read_dir(here.join("expansions")).unwrap().count(), seen, "one for each");
}

/// Those that show no option.
const NOT_IN_THE_REFERENCE: [&str; 5] = ["boxed", "everything", "future", "mistakes", "sync"];

#[test]
fn the_reference_shows_what_is_expanded_here() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zklock-macros");
    let reference = fs::read_to_string(package.join("options.md")).unwrap();
    for entry in fs::read_dir(package.join("expansions")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".rs") else { continue };
        let block = format!("```rust,ignore\n{}```\n", fs::read_to_string(&path).unwrap());
        assert!(
            NOT_IN_THE_REFERENCE.contains(&name) || reference.contains(&block),
            "{name} is missing"
        );
    }
}

#[test]
fn a_body_that_does_not_parse_is_emitted_as_it_is() {
    let item = quote! {
        async fn guarded() -> Result<(), LockError> { let x = ; self. }
    };
    let tokens = locked(quote!("order"), item).to_string();
    assert!(tokens.contains("{ let x = ; self . }"), "{tokens}");
    assert!(tokens.contains("__private :: run"), "{tokens}");
    assert!(!tokens.contains("compile_error"), "{tokens}");
}

#[test]
fn a_future_that_cannot_be_read_is_refused() {
    let item = quote! {
        fn guarded() -> impl Future<Output = Result<(), LockError>> { let x = ; async {} }
    };
    let tokens = locked(quote!("order"), item).to_string();
    assert!(tokens.contains("compile_error") && tokens.contains("let x = ; async { }"), "{tokens}");
}

#[test]
fn something_that_is_no_function_stays() {
    let item = quote!(
        struct Order;
    );
    let tokens = locked(quote!("order"), item).to_string();
    assert!(tokens.contains("compile_error") && tokens.ends_with("struct Order ;"), "{tokens}");
}

#[test]
fn a_name_by_itself_is_checked_when_compiling_and_filled_in() {
    let expected = quote!({
        const _: () = ::zklock::__private::check_pattern("orders/{id}");
        {
            static __ZKLOCK_PATTERN: ::zklock::__private::StaticPattern =
                ::zklock::__private::StaticPattern::new("orders/{id}");
            ::zklock::__private::Name::of(&__ZKLOCK_PATTERN).text("orders/").value(&id)
        }
        .build()
        .made()
    });
    assert_eq!(lock_name::expand(quote!("orders/{id}")).to_string(), expected.to_string());
}
