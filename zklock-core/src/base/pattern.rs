//! The pattern of a lock's name: what a program writes, before values are filled in.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{PoisonError, RwLock};

/// The pattern of names that are given as text: it may contain values.
pub const ANY: &str = "{name}";

/// The pattern of a lock's name, such as `orders/{id}`: metrics are labelled with it, and never with
/// a value. It is a number in two bytes, because each held lock has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern(u16);

#[derive(Default)]
struct Known {
    /// The pattern [`ANY`] has the number 0, and is not among these.
    texts: Vec<&'static str>,
    numbers: HashMap<&'static str, u16>,
}

/// All patterns of this process. Their texts are part of the program, so there are few.
static KNOWN: RwLock<Option<Known>> = RwLock::new(None);

impl Pattern {
    /// The pattern with this text.
    pub fn of(text: &'static str) -> Self {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let number = known.as_ref().and_then(|known| known.numbers.get(text).copied());
        drop(known);
        Pattern(number.unwrap_or_else(|| learn(text)))
    }

    /// Its text.
    pub fn text(self) -> &'static str {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(self.0).checked_sub(1);
        at.and_then(|at| known.as_ref()?.texts.get(at).copied()).unwrap_or(ANY)
    }
}

/// More than 65,535 patterns are not told apart.
fn learn(text: &'static str) -> u16 {
    if text == ANY {
        return 0;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Known { texts, numbers } = known.get_or_insert_default();
    let Ok(next) = u16::try_from(texts.len() + 1) else { return 0 };
    *numbers.entry(text).or_insert_with(|| {
        texts.push(text);
        next
    })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A pattern in a program, which is looked up once.
#[derive(Debug)]
pub struct StaticPattern(&'static str, AtomicU16);

impl StaticPattern {
    /// The pattern with this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        StaticPattern(text, AtomicU16::new(0))
    }

    /// The pattern.
    pub fn get(&self) -> Pattern {
        let StaticPattern(text, number) = self;
        match number.load(Ordering::Relaxed) {
            0 => {
                let pattern = Pattern::of(text);
                number.store(pattern.0, Ordering::Relaxed);
                pattern
            }
            known => Pattern(known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        static ORDERS: StaticPattern = StaticPattern::new("orders/{id}");
        let orders = Pattern::of("orders/{id}");
        assert_eq!((ORDERS.get(), ORDERS.get()), (orders, orders));
        assert_ne!(Pattern::of("orders/{customer}"), orders);
        assert_eq!((orders.text(), Pattern::default().text()), ("orders/{id}", ANY));
        assert_eq!(Pattern::of(ANY), Pattern::default());
    }
}
