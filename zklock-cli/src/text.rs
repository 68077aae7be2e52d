//! Lines of text.

use std::fmt::Display;
use std::io::{Write, stderr};

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

    #[test]
    fn long_texts_are_broken_between_words() {
        let text = wrapped(&format!("code  {}", "word ".repeat(30).trim_end()), 6);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= WIDTH), "{text}");
        assert!(lines[1].starts_with("      word") && lines[0].starts_with("code  word"), "{text}");
    }
}
