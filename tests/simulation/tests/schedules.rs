//! One schedule of every profile, without optimisation. `simulate short` runs more.

use zklock_simulation::chooser::{Chooser, Streams};
use zklock_simulation::found::told;
use zklock_simulation::profile::{MIX, SMALLEST};
use zklock_simulation::schedule::run;

#[test]
fn the_same_seed_shows_the_same_and_every_rule_holds() {
    for profile in MIX.iter().chain(SMALLEST) {
        let [one, other] = [(); 2].map(|()| run(Chooser::random(0), profile, false));
        let told =
            one.violation.as_ref().map(|violation| told(violation, &format!("{} 0", profile.name)));
        assert_eq!(told, None);
        assert_eq!(one.digest, other.digest, "{}", profile.name);
        assert_eq!(one.record, other.record);
        let streams = Chooser::streams(Streams::of(&one.record));
        let choices = one.record.iter().map(|choice| choice.picked).collect();
        for chooser in [streams, Chooser::replay(choices)] {
            let replayed = run(chooser, profile, false);
            assert_eq!(one.digest, replayed.digest, "{}", profile.name);
        }
    }
}
