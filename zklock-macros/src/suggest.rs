//! "Did you mean …?"

/// Returns the candidate that was probably meant by `word`.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .iter()
        .map(|candidate| (distance(&word, candidate), *candidate))
        .filter(|(distance, candidate)| {
            *distance <= candidate.len() / 3 || shared_prefix(&word, candidate) >= 4
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Names them all: "`a`, `b` and `c`".
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

fn shared_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(b.chars()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::closest;

    const OPTIONS: &[&str] = &["timeout", "retries", "session", "crate"];

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(closest("timout", OPTIONS), Some("timeout"));
        assert_eq!(closest("time_out", OPTIONS), Some("timeout"));
        assert_eq!(closest("retry", OPTIONS), Some("retries"));
        assert_eq!(closest("Session", OPTIONS), Some("session"));
        assert_eq!(closest("sesion", OPTIONS), Some("session"));
    }

    #[test]
    fn another_word_is_not_guessed() {
        assert_eq!(closest("lease", OPTIONS), None);
        assert_eq!(closest("when", OPTIONS), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(super::distance("", "abc"), 3);
        assert_eq!(super::distance("abc", ""), 3);
        assert_eq!(super::distance("kitten", "sitting"), 3);
        assert_eq!(super::distance("same", "same"), 0);
    }
}
