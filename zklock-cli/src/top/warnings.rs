//! What is to be noticed about a lock at a glance.

use std::time::Duration;

use crate::ls::Lock;
use crate::why::life::Life;
use crate::why::view::View;

/// Who is waited for so long is suspicious.
const LONG: Duration = Duration::from_secs(60);

/// A lock and how long it is held and waited for.
pub(crate) fn of(lock: &Lock, held: Duration, waited: Duration, views: &[View]) -> Vec<String> {
    let mut warnings = Vec::new();
    for one in &lock.holders {
        match Life::of(one, views) {
            Life::Stays => warnings.push("its node belongs to no session and stays".to_owned()),
            Life::Alone => warnings.push("its holder has no connection".to_owned()),
            life if life.is_silent(one) => warnings.push("its holder is silent".to_owned()),
            _ => {}
        }
        if one.owner.revoked {
            warnings.push("its holder was asked to release it".to_owned());
        }
    }
    if lock.layout.contains(" and ") {
        warnings.push("its users do not exclude each other".to_owned());
    }
    if waited >= LONG && held >= LONG {
        warnings.push("held for more than a minute while others wait".to_owned());
    }
    if lock.holders.is_empty() {
        warnings.push("nobody holds it, but somebody waits".to_owned());
    }
    warnings.dedup();
    warnings
}
