//! The first schedules of a few profiles, which show many deliberate defects.

use zklock_simulation::chooser::Chooser;
use zklock_simulation::found::told;
use zklock_simulation::profile::MIX;
use zklock_simulation::schedule::run;

#[test]
fn every_rule_holds_in_the_first_schedules() {
    for (name, many) in [("general", 32), ("forgetful", 8), ("silence", 32), ("lanes", 4)] {
        let profile = MIX.iter().find(|profile| profile.name == name).expect("it is in the mix");
        for seed in 0..many {
            let outcome = run(Chooser::random(seed), profile, false);
            let told = outcome.violation.as_ref().map(|what| told(what, &format!("{name} {seed}")));
            assert_eq!(told, None);
        }
    }
}
