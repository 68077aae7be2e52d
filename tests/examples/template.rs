//! The template by hand.

use crate::run;

#[test]
fn it_shows_the_result_the_holder_and_the_tokens() {
    let output = run("template", &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "execute returned \"order 1\"",
        "busy, code 1011: createOrder is being processed by billing",
        "late first write refused",
        "the thread returned \"order 2\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_unknown_option_is_refused() {
    let output = run("template", &["--bogus"]);
    assert_eq!(output.status.code(), Some(2));
}
