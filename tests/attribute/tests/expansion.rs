//! What the attribute expands to, option by option.
//!
//! The files are in `zklock-macros/expansions`, where the documentation of the attribute shows
//! them. With `BLESS=1` in the environment they are written anew.

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
#[path = "../../../zklock-macros/src/returns.rs"]
mod returns;
#[path = "../../../zklock-macros/src/shape.rs"]
mod shape;
#[path = "../../../zklock-macros/src/suggest.rs"]
mod suggest;
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
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zklock-macros/expansions");
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(stem) = name.strip_suffix(".rs").filter(|stem| !stem.ends_with(".expanded"))
        else {
            continue;
        };
        let expected = path.with_file_name(format!("{stem}.expanded.rs"));
        let actual = expanded(&fs::read_to_string(&path).unwrap());
        if env::var_os("BLESS").is_some() {
            fs::write(&expected, &actual).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap();
        assert_eq!(actual, expected, "{name} expands to something else");
        seen += 1;
    }
    assert!(seen > 8, "only {seen} files");
}

/// Those that show no option.
const NOT_IN_THE_PAGE: [&str; 3] = ["boxed", "everything", "mistakes"];

/// Writes the blocks of the page anew, between the marker and the end.
fn filled(page: &str, block: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let marker = line.strip_prefix("<!-- expansion ").and_then(|l| l.strip_suffix(" -->"));
        if let Some(name) = marker {
            text += &block(name);
            if lines.peek().is_some_and(|next| next.starts_with("```")) {
                lines.by_ref().find(|line| *line == "<!-- end -->");
            }
            text += "<!-- end -->\n";
        }
    }
    text
}

#[test]
fn the_page_shows_every_expansion() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (page, folder) = (root.join("docs/attribute.md"), root.join("zklock-macros/expansions"));
    let text = fs::read_to_string(&page).unwrap();
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let shown = filled(&text, |name| {
        let source = read(&format!("{name}.rs"));
        let expanded = expanded(&source);
        format!("```rust,ignore\n{source}```\n\nexpands to\n\n```rust,ignore\n{expanded}```\n")
    });
    if env::var_os("BLESS").is_some() {
        fs::write(&page, &shown).unwrap();
    } else {
        assert!(text == shown, "docs/attribute.md is out of date; BLESS=1 writes it anew");
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".expanded.rs") else { continue };
        let marker = format!("<!-- expansion {name} -->");
        assert!(shown.contains(&marker) || NOT_IN_THE_PAGE.contains(&name), "{name} is missing");
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
fn a_future_that_cannot_be_read_is_left_alone() {
    let item = quote! {
        fn guarded() -> impl Future<Output = Result<(), LockError>> { let x = ; async {} }
    };
    let spaceless = |tokens: TokenStream| tokens.to_string().replace(' ', "");
    assert_eq!(spaceless(locked(quote!("order"), item.clone())), spaceless(item));
}

#[test]
fn something_that_is_no_function_stays() {
    let item = quote!(
        struct Order;
    );
    let tokens = locked(quote!("order"), item).to_string();
    assert!(tokens.contains("compile_error") && tokens.ends_with("struct Order ;"), "{tokens}");
}
