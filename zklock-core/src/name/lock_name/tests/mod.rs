//! The rules for names, on the vectors that every language checks.

use std::fmt;

use serde_json::Value;

use super::builder::is_digit;
use super::*;
use crate::base::error_kind::ErrorKind;
use crate::name::path::is_refused;

/// The rule as every language must have it; Java and Python check the same file.
const VECTORS: &str = include_str!("../../../../../tests/vectors/lock-names.json");

const FLAWS: [(&str, Flaw); 7] = [
    ("empty", Flaw::Empty),
    ("empty-segment", Flaw::EmptySegment),
    ("empty-value", Flaw::EmptyValue),
    ("dots", Flaw::Dots),
    ("refused", Flaw::Refused),
    ("reserved", Flaw::Reserved),
    ("too-long", Flaw::TooLong),
];

fn vectors(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).unwrap();
    all[kind].as_array().unwrap().clone()
}

fn times(vector: &Value) -> usize {
    vector["times"].as_u64().map_or(1, |times| times as usize)
}

fn check(vector: &Value, made: Result<LockName, LockError>) {
    let root = ZnodePath::new("/zklock").unwrap();
    match made {
        Ok(name) => match vector["path"].as_str() {
            Some(path) => assert_eq!(name.path_under(&root).as_str(), path, "{vector}"),
            None => assert_eq!(vector["length"], name.as_str().len(), "{vector}"),
        },
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{vector}");
            let flaw = FLAWS.iter().find(|(name, _)| vector["error"] == *name);
            let (_, flaw) = flaw.unwrap_or_else(|| panic!("{vector}: {error}"));
            assert!(error.to_string().contains(flaw.message()), "{vector}: {error}");
            assert!(error.to_string().len() < 1000);
        }
    }
}

/// Reads a segment backwards.
fn decoded(segment: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), segment.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = match after {
            [high, low, after @ ..] if *first == b'~' && [high, low].into_iter().all(is_digit) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                after
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8(bytes).unwrap()
}

/// Values of whatever the rule treats in a way of its own, in every order.
fn values() -> Vec<String> {
    let parts = [
        "~",
        "4",
        "1",
        "41",
        "7E",
        "2F",
        "F",
        "f",
        "g",
        "/",
        ".",
        "0",
        "-",
        " ",
        "lo",
        "cks",
        "leases",
        "\u{0}",
        "\u{7f}",
        "\u{9f}",
        "\u{e000}",
        "é",
        "订",
        "\u{fff0}",
        "\u{1f600}",
        "A",
        "%",
    ];
    let pairs: Vec<String> =
        parts.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}"))).collect();
    let triples = pairs.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}")));
    let mut values: Vec<String> = triples.chain(pairs.iter().cloned()).collect();
    values.extend(parts.map(str::to_owned));
    values.sort();
    values.dedup();
    values
}

/// Also where literal text stands around the value, and could make an escape with it.
#[test]
fn segments_of_values_are_read_backwards_and_no_two_are_one() {
    let values = values();
    for (before, after) in [("", ""), ("~", ""), ("", "41"), ("~4", "1"), ("lo", ""), (".", "")] {
        let mut seen = std::collections::HashSet::new();
        for value in &values {
            let name = LockName::build().text(before).value(value).text(after).finish().unwrap();
            assert_eq!(decoded(name.as_str()), format!("{before}{value}{after}"), "{name}");
            assert!(!name.as_str().contains('/'), "{name}");
            assert!(LockName::new(name.as_str()).is_ok_and(|again| again == name), "{name}");
            assert!(
                ZnodePath::new(name.path_under(&ZnodePath::new("/").unwrap()).as_str()).is_ok()
            );
            assert!(seen.insert(name), "{value:?}");
        }
    }
}

#[test]
fn a_value_that_can_be_a_segment_stays_as_it_is() {
    let mut values: Vec<String> = (0..200).map(|_| uuid::Uuid::new_v4().to_string()).collect();
    values.extend(
        ["0", "007", "-5", " ", "+1", "%2F", "a b", "...", ".a", "größe 4", "~", "~4"]
            .map(str::to_owned),
    );
    values.extend(["~4g", "~ab", "lock", "Locks", "订单", "!", "a~"].map(str::to_owned));
    for value in values {
        let name = LockName::build().text("orders/").value(&value).finish().unwrap();
        assert_eq!(name.as_str(), format!("orders/{value}"));
        assert_eq!(LockName::new(&format!("orders/{value}")).unwrap(), name);
    }
}

#[test]
fn literal_names_are_those_of_the_vectors() {
    for vector in vectors("literals") {
        check(&vector, LockName::new(&vector["name"].as_str().unwrap().repeat(times(&vector))));
    }
}

#[test]
fn names_of_values_are_those_of_the_vectors() {
    for vector in vectors("patterns") {
        let mut builder = LockName::build();
        for (at, part) in vector["parts"].as_array().unwrap().iter().enumerate() {
            let part = part.as_str().unwrap();
            builder = match at % 2 {
                0 => builder.text(part),
                _ => builder.value(&part.repeat(times(&vector))),
            };
        }
        check(&vector, builder.finish());
    }
}

/// Only in Rust can a value refuse to be text, so that there is no vector of it.
#[test]
fn a_value_that_cannot_be_written_is_refused() {
    struct Fails;
    impl fmt::Display for Fails {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    let error = LockName::build().text("orders/").value(&Fails).finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    assert!(error.to_string().contains(Flaw::Unwritable.message()), "{error}");
}

#[test]
fn every_rule_has_a_vector_of_each_kind() {
    for (name, flaw) in FLAWS {
        let breaks = |vector: &Value| vector["error"] == name;
        assert!(vectors("patterns").iter().any(breaks), "{name}");
        let literal = vectors("literals").iter().any(breaks);
        assert_eq!(literal, flaw != Flaw::EmptyValue, "{name}");
    }
}

#[test]
fn the_byte_rule_is_the_character_rule() {
    for c in (0..=0x10_ffff).filter_map(char::from_u32) {
        let name = format!("x{c}");
        let refused = c != '/' && is_refused(c);
        assert_eq!(check_literal(name.as_bytes(), false) == Err(Flaw::Refused), refused, "{c:?}");
    }
}

#[test]
fn literal_text_of_a_pattern_is_checked_too() {
    assert_eq!(check_literal(b"a/{x}/..", true), Err(Flaw::Dots));
    assert_eq!(check_literal(b"a/0{x}", true), Ok(()));
    assert_eq!(check_literal(b"a/{x}", true), Ok(()));
    assert_eq!(check_literal(b"a/{x}/", true), Err(Flaw::EmptySegment));
    assert_eq!(check_literal(b"a/{{x}}", true), Ok(()));
    assert_eq!(check_literal(b"order-{order_id}", true), Ok(()));
}
