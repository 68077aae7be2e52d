//! A long history in parts that can be searched one after the other.
//!
//! At a moment at which no step is under way, what has happened is known, and with it the state:
//! who is inside, and the greatest tokens. The next part begins with the steps that lead there.

use std::collections::BTreeMap;

use crate::history::{Mode, Token};
use crate::models::{Entry, Step};

/// Steps in a part, at least: each has to be led to its state.
const SMALLEST: usize = 200;

/// A step, and when it may have happened.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) step: Step,
}

/// What has happened so far.
#[derive(Debug, Default)]
struct Past {
    inside: BTreeMap<usize, Entry>,
    /// The last of those who were alone, and the last of all, by their tokens.
    alone: Option<Entry>,
    last: Option<Entry>,
    written: Option<Token>,
}

impl Past {
    /// All of these steps have happened, in whatever order.
    fn take(&mut self, steps: &[Span]) {
        for Span { step, .. } in steps {
            match step {
                Step::Enter(one) | Step::StepDown(_, one) => _ = self.inside.insert(one.id, *one),
                Step::Leave(_) => {}
                Step::Write(token) => self.written = self.written.max(Some(*token)),
            }
        }
        for Span { step, .. } in steps {
            if let Step::Leave(one) | Step::StepDown(one, _) = step {
                self.left(*one);
            }
        }
    }

    fn left(&mut self, one: Entry) {
        self.inside.remove(&one.id);
        let later = |known: &Option<Entry>| known.is_none_or(|known| known.token < one.token);
        if one.token.is_some() && one.mode != Mode::Permit {
            if one.mode != Mode::Read && later(&self.alone) {
                self.alone = Some(one);
            }
            if later(&self.last) {
                self.last = Some(one);
            }
        }
    }

    /// The steps that lead to it, one after the other.
    fn steps(&self) -> Vec<Span> {
        let mut steps = Vec::new();
        let last = self.last.filter(|last| Some(last.id) != self.alone.map(|alone| alone.id));
        // Whoever is inside as a reader since then may have entered before the last reader.
        for gone in self.alone.into_iter().chain(last) {
            steps.push(Step::Enter(Entry { root: gone.id, ..gone }));
            steps.push(Step::Leave(Entry { root: gone.id, ..gone }));
        }
        let mut inside: Vec<_> = self.inside.values().copied().collect();
        inside.sort_by_key(|one| (one.token, one.id));
        steps.extend(inside.into_iter().map(Step::Enter));
        steps.extend(self.written.map(Step::Write));
        let spans = steps.into_iter().zip(0..);
        spans.map(|(step, at)| Span { from: 2 * at, to: 2 * at + 1, step }).collect()
    }
}

/// The parts of a history.
pub(crate) fn parts(mut spans: Vec<Span>) -> Vec<Vec<Span>> {
    spans.sort_by_key(|span| (span.from, span.to));
    let (mut parts, mut past) = (Vec::new(), Past::default());
    let (mut part, mut new, mut latest) = (Vec::new(), Vec::new(), 0);
    for span in spans {
        if new.len() >= SMALLEST && span.from > latest {
            past.take(&new);
            part.append(&mut new);
            parts.push(std::mem::replace(&mut part, past.steps()));
        }
        latest = latest.max(span.to);
        new.push(span);
    }
    part.append(&mut new);
    parts.push(part);
    parts
}
