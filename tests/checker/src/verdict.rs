//! What a rule was asked, and what it answered.

use std::collections::BTreeMap;
use std::fmt;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The lines are as the README says.
    Format,
    /// No two that exclude each other hold at once; no more permits than the limit.
    Exclusion,
    /// Of two grants that exclude each other, the later has the greater token.
    Tokens,
    /// Every request is answered once.
    Answers,
    /// A lost guard stays lost.
    Lost,
    /// Whoever loses a node to an outsider is told in time.
    Told,
    /// No answer comes later than it was asked for.
    Deadline,
    /// An error is of the kind that it is.
    Kind,
    /// A process that promises order keeps it.
    Order,
    /// No guard is valid beyond the time for which it may be held.
    Overtime,
    /// Several locks are taken as one: all or none.
    Whole,
    /// No write of an earlier holder after one of a later holder.
    Fenced,
    /// Everything is given back, and nothing is left over.
    Leaks,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 13] = [
        Rule::Format,
        Rule::Exclusion,
        Rule::Tokens,
        Rule::Answers,
        Rule::Lost,
        Rule::Told,
        Rule::Deadline,
        Rule::Kind,
        Rule::Order,
        Rule::Overtime,
        Rule::Whole,
        Rule::Fenced,
        Rule::Leaks,
    ];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// By whom and when.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// How much a rule has seen: silence about nothing is no praise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// What it would have found to be wrong if it were, by what it is.
    pub judged: BTreeMap<&'static str, u64>,
    /// What it would not, by the reason.
    pub excused: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, all: &BTreeMap<&'static str, u64>| {
            let all: Vec<_> = all.iter().map(|(what, count)| format!("{count} {what}")).collect();
            if all.is_empty() { Ok(()) } else { write!(f, " ({})", all.join(", ")) }
        };
        write!(f, "{} judged", self.judged.values().sum::<u64>())?;
        list(f, &self.judged)?;
        write!(f, ", {} excused", self.excused.values().sum::<u64>())?;
        list(f, &self.excused)
    }
}

/// What is wrong with a history, and how much of it was looked at.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// By rule.
    pub counts: BTreeMap<Rule, Count>,
}

impl Verdict {
    /// How much a rule has judged.
    pub fn judged(&self, rule: Rule) -> u64 {
        self.counts.get(&rule).map_or(0, |count| count.judged.values().sum())
    }

    /// How much of one sort a rule has judged.
    pub fn judged_of(&self, rule: Rule, what: &str) -> u64 {
        self.counts.get(&rule).and_then(|count| count.judged.get(what)).copied().unwrap_or_default()
    }

    /// How much a rule has excused.
    pub fn excused(&self, rule: Rule) -> u64 {
        self.counts.get(&rule).map_or(0, |count| count.excused.values().sum())
    }

    pub(crate) fn judge(&mut self, rule: Rule, what: &'static str) {
        self.judge_all(rule, what, 1);
    }

    pub(crate) fn judge_all(&mut self, rule: Rule, what: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(rule).or_default().judged.entry(what).or_default() += count;
        }
    }

    pub(crate) fn excuse(&mut self, rule: Rule, why: &'static str) {
        self.excuse_all(rule, why, 1);
    }

    pub(crate) fn excuse_all(&mut self, rule: Rule, why: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(rule).or_default().excused.entry(why).or_default() += count;
        }
    }

    pub(crate) fn violated(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }
}

/// How much each rule has seen, a line each.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in Rule::ALL {
            let count = self.counts.get(&rule).cloned().unwrap_or_default();
            writeln!(f, "  {rule:9} {count}")?;
        }
        Ok(())
    }
}
