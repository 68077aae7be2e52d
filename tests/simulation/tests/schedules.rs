//! The short form: some schedules of every profile, each of them new to nobody.

use zklock_simulation::chooser::Chooser;
use zklock_simulation::profile::{MIX, Profile};
use zklock_simulation::schedule::run;

/// How many schedules of each profile. Without optimisation there are some ten to fifty a second.
const SCHEDULES: u64 = 12;

/// Which rule does not hold, and how to see it.
fn told(profile: &Profile) -> Option<String> {
    (0..SCHEDULES).find_map(|seed| {
        let violation = run(Chooser::random(seed), profile, false).violation?;
        let (name, rule) = (profile.name, violation.rule);
        Some(format!(
            "{}: {} (\"{}\")\ncargo run --release -p zklock-simulation shrink {name} {seed}",
            rule.name, violation.what, rule.says
        ))
    })
}

#[test]
fn every_rule_holds_in_every_schedule() {
    assert_eq!(MIX.iter().find_map(told), None);
}

#[test]
fn the_same_seed_shows_the_same() {
    for profile in MIX {
        for seed in 0..1 {
            let [one, other] = [(); 2].map(|()| run(Chooser::random(seed), profile, false));
            assert_eq!(one.digest, other.digest, "{} {seed}", profile.name);
            assert_eq!(one.record, other.record);
            let choices = one.record.iter().map(|choice| choice.picked).collect();
            let replayed = run(Chooser::replay(choices), profile, false);
            assert_eq!(one.digest, replayed.digest, "{} {seed}", profile.name);
        }
    }
}
