//! The long forms of tests.

/// Returns whether the long forms of tests are asked for: `ZKLOCK_LONG=1`.
pub fn is_long() -> bool {
    says_long(std::env::var("ZKLOCK_LONG").ok().as_deref())
}

/// An empty value, or `0`, asks for the short forms as no value does.
fn says_long(value: Option<&str>) -> bool {
    value == Some("1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_asks_for_the_long_forms() {
        assert!(says_long(Some("1")));
        assert!([None, Some(""), Some("0")].into_iter().all(|value| !says_long(value)));
    }
}
