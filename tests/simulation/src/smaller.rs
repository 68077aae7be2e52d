//! Makes a schedule that shows something as small as it can.

use zklock_simulation::chooser::{Chooser, Streams, shrink};
use zklock_simulation::profile::Profile;
use zklock_simulation::rules::Rule;
use zklock_simulation::schedule::run;

/// Makes the profile smaller, and then what is chosen, as long as the same rule does not hold: fewer
/// faults, processes, tasks, rounds and locks first, and no more of what is switched off.
pub(crate) fn smaller(profile: &Profile, choices: Streams, rule: Rule) -> (Profile, Streams) {
    let fails = |profile: &Profile, choices: &Streams| {
        let outcome = run(Chooser::streams(choices.clone()), profile, false);
        outcome.violation.is_some_and(|other| other.rule == rule)
    };
    let (mut profile, mut choices) = (profile.clone(), choices);
    loop {
        let before = choices.len();
        while let Some(less) = profile.smaller().into_iter().find(|less| fails(less, &choices)) {
            profile = less;
        }
        choices = shrink(&choices, |choices| fails(&profile, choices));
        if choices.len() == before {
            return (profile, choices);
        }
    }
}
