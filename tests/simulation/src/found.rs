//! What a failure is told with.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::chooser::Chooser;
use crate::origin;
use crate::profile::Profile;
use crate::rules::Violation;
use crate::schedule::{Outcome, run};

/// Failures by rule: how many, and the first of them.
#[derive(Debug, Default)]
pub struct Found(Mutex<BTreeMap<String, (u64, String)>>);

impl Found {
    /// Runs a schedule, which is also told by this: `PROFILE SEED`, or `PROFILE CHOICES`. Returns nothing if the
    /// simulation itself panics.
    pub fn run(
        &self,
        chooser: Chooser,
        profile: &Profile,
        how: impl Fn(&Outcome) -> String,
    ) -> Option<Outcome> {
        let before = chooser.clone();
        match catch_unwind(AssertUnwindSafe(|| run(chooser, profile, false))) {
            Ok(outcome) => {
                if let Some(violation) = &outcome.violation {
                    self.add(violation.rule.name, told(violation, &how(&outcome)));
                }
                Some(outcome)
            }
            Err(panic) => {
                let what = said(panic.as_ref());
                self.add("panic", format!("{}: {before:?}: {what}\n{}", profile.name, built()));
                None
            }
        }
    }

    fn add(&self, rule: &str, told: String) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(rule.to_owned()).or_insert((0, told)).0 += 1;
    }

    /// Adds what others found.
    pub fn take(&self, others: Found) {
        let others = others.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, (count, told)) in others {
            found.entry(rule).or_insert((0, told)).0 += count;
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.values().map(|(count, _)| count).sum()
    }

    /// The first of each rule.
    pub fn texts(&self) -> Vec<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(rule, (count, first)): (&String, &(u64, String))| {
            format!("FAILED: {count} by the rule {rule}, the first of them:\n{first}")
        };
        found.iter().map(one).collect()
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panics")
}

/// Commit, compiler and options.
pub fn built() -> String {
    format!("commit {}, {}", origin::commit(), origin::BUILT)
}

/// Which rule does not hold in a schedule (`PROFILE SEED`, or `PROFILE CHOICES`), of what, and how to see it.
pub fn told(violation: &Violation, schedule: &str) -> String {
    let Violation { rule, what } = violation;
    let run = "cargo run --profile simulate --package zklock-simulation --";
    let (says, built) = (rule.says, built());
    format!(
        "{schedule}: {}: {what}\n  \"{says}\"\n{built}\n{run} shrink {schedule}   # as small as it can be\n\
         {run} keep {schedule} NAME # the same, as a test",
        rule.name
    )
}
