//! What is refused, and what is said: one file per mistake in `refused/`.

#[test]
fn every_mistake_is_told_once_and_where_it_is() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/refused/*.rs");
}
