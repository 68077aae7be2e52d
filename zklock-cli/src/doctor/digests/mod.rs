//! Whether the data of the servers are those of their leader.
//!
//! A leader sends the digest that the data have after a transaction with each of them, and each server,
//! itself included, counts where its own is another one. The count is that of a process, which may have
//! followed others before. So only a count that grows during this run says something of now.

mod judge;

use std::time::{Duration, Instant};

use tokio::time::timeout;

use self::judge::{Counted, judge};
use crate::doctor::{Check, servers};
use crate::words::{self, Digests};

/// How much the clocks of two machines may drift apart during a run.
const SLACK: Duration = Duration::from_millis(100);

/// What a server told between two moments.
pub(super) struct Look {
    asked: Instant,
    answered: Instant,
    told: Digests,
    may_ask_admin: bool,
}

impl Look {
    async fn again(&self, server: &str, within: Duration) -> Option<Look> {
        look(server, self.may_ask_admin, within).await
    }

    /// What is counted from here to a later look. Nothing, if the server was started or joined a leader in
    /// between, or if another server answered under the same name: its time runs otherwise then.
    fn until<'s>(&self, server: &'s str, later: &Look) -> Option<Counted<'s>> {
        let ran = later.told.up.checked_sub(self.told.up)?;
        let least = later.asked.saturating_duration_since(self.answered);
        let most = later.answered.saturating_duration_since(self.asked);
        let is_same =
            ran + SLACK >= least && ran <= most + SLACK && self.told.role == later.told.role;
        is_same.then(|| Counted {
            server,
            role: self.told.role.clone(),
            before: self.told.mismatches,
            after: later.told.mismatches,
            voters: later.told.voters,
        })
    }
}

/// Asks each server, in their order. One that does not tell has none. For one that is spoken for, the AdminServer would
/// tell what is another one's.
pub(super) async fn ask(
    servers: &[String],
    are_spoken_for: &[bool],
    within: Duration,
) -> Vec<Option<Look>> {
    let mut looks = Vec::new();
    for (server, is_spoken_for) in servers.iter().zip(are_spoken_for) {
        looks.push(look(server, !is_spoken_for, within).await);
    }
    looks
}

async fn look(server: &str, may_ask_admin: bool, within: Duration) -> Option<Look> {
    let asked = Instant::now();
    let told = timeout(within, words::digests(words::host(server), may_ask_admin));
    let told = told.await.ok().flatten()?;
    Some(Look { asked, answered: Instant::now(), told, may_ask_admin })
}

/// Compares with what was told before this run wrote. Nothing is said of servers none of which tells.
pub(super) async fn compare(
    servers: &[String],
    before: &[Option<Look>],
    within: Duration,
) -> Vec<Check> {
    if before.iter().all(Option::is_none) {
        return Vec::new();
    }
    let (mut counted, mut silent) = (Vec::new(), Vec::new());
    for (server, before) in servers.iter().zip(before) {
        let after = match before {
            // The session that was closed was at this server, which has applied what it answered.
            Some(look) if servers.len() == 1 => look.again(server, within).await,
            // One that is behind has not yet compared what was written.
            Some(look) if servers::opens(server, within).await => look.again(server, within).await,
            _ => None,
        };
        let pair = before.as_ref().zip(after.as_ref());
        match pair.and_then(|(before, after)| before.until(server, after)) {
            Some(one) => counted.push(one),
            None => silent.push(&**server),
        }
    }
    judge(&counted, &silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_whose_time_went_on_is_compared() {
        let start = Instant::now();
        let look = |at: u64, role: &str, up: u64| Look {
            asked: start + Duration::from_secs(at),
            answered: start + Duration::from_secs(at + 1),
            told: Digests {
                role: role.to_owned(),
                mismatches: at,
                up: Duration::from_secs(up),
                voters: None,
            },
            may_ask_admin: true,
        };
        let counted = |later| look(0, "follower", 50).until("a", &later).map(|one| one.after);
        assert_eq!(counted(look(10, "follower", 60)), Some(10));
        // Started, or elected, in between.
        assert_eq!(counted(look(10, "follower", 3)), None);
        assert_eq!(counted(look(10, "follower", 55)), None);
        assert_eq!(counted(look(10, "leader", 60)), None);
        // Another server of the same name.
        assert_eq!(counted(look(10, "follower", 900)), None);
    }
}
