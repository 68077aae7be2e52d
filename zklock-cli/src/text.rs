//! Lines of text.

use std::fmt::Display;
use std::io::{Write, stderr};

use serde_json::Value;

/// The width of a line.
const WIDTH: usize = 96;

/// Tells people something. Where nobody is left to be told, what is done goes on: `eprintln!` would panic.
pub(crate) fn tell(what: impl Display) {
    _ = stderr().write_all(format!("zklock: {what}\n").as_bytes());
}

/// A text without what could do something to a terminal. Whoever may create nodes chooses what is in them.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A document as it is printed. JSON may have the control characters of Latin-1 as they are, which a terminal obeys.
pub(crate) fn json_text(document: &Value) -> String {
    let mut text = String::new();
    for c in document.to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text
}

/// So many of something: `1 lock`, `2 locks`.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Breaks a text into lines; all but the first are indented.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if !out.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that may be between quotes, as it was meant.
    #[test]
    fn a_document_has_no_control_characters_and_says_the_same() {
        let all: String = ('\0'..='\u{17f}').collect();
        let document = serde_json::json!({ &all: [&all, 1.5, null] });
        let text = json_text(&document);
        assert!(!text.contains(char::is_control), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        assert!(text.contains("\\u007f\\u0080") && text.contains("\\u009f\u{a0}"), "{text}");
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        let text = wrapped(&format!("code  {}", "word ".repeat(30).trim_end()), 6);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= WIDTH), "{text}");
        assert!(lines[1].starts_with("      word") && lines[0].starts_with("code  word"), "{text}");
    }
}
