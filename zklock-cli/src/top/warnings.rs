//! What is to be noticed about a lock at a glance.

use std::time::Duration;

use zklock::ContenderInfo;

use crate::held::{Held, granted};
use crate::ls::Lock;
use crate::why::life::Life;
use crate::why::view::View;

/// Who is waited for so long is suspicious.
const LONG: Duration = Duration::from_secs(60);

/// A lock and how long it is held and waited for.
pub(crate) fn of(lock: &Lock, held: Held, waited: Duration, views: &[View]) -> Vec<String> {
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
    // With a heartbeat clients of zklock tell it.
    let never_tells = |one: &ContenderInfo| granted(one).is_none() && one.owner.pid.is_none();
    if waited >= LONG && held.least >= LONG {
        warnings.push("held for more than a minute while others wait".to_owned());
    } else if waited >= LONG && held.most >= LONG && lock.holders.iter().any(never_tells) {
        warnings.push(
            "others wait for more than a minute, and its holder does not tell since when it holds it"
                .to_owned(),
        );
    }
    // While it rests, nobody can hold it.
    if lock.holders.is_empty() && lock.until.is_none() {
        warnings.push("nobody holds it, but somebody waits".to_owned());
    }
    warnings.dedup();
    warnings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::member::{Member, Place};
    use crate::words::Connection;
    use zklock::Session;

    fn view(connections: &[(i64, i64)]) -> View {
        let told = |&(session, answered)| Connection {
            session,
            from: "10.0.0.7:1".to_owned(),
            timeout: Duration::from_secs(12),
            answered,
        };
        let connections = Ok(connections.iter().map(told).collect());
        let (server, queues, own) = ("zk1:2181".to_owned(), Ok(Vec::new()), Some(1));
        let (place, unsure) = (Place::alone(), BTreeSet::new());
        View { server, place, queues, connections, own, unsure }
    }

    #[tokio::test]
    async fn what_is_suspect_is_told_in_words() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut lock = crate::ls::find(&session, None).await.unwrap().locks.remove(0);
        lock.holders[0].zookeeper_session = 7;
        let [short, long] = [Duration::from_secs(59), LONG].map(Held::exactly);
        // The present time of the server is that of its last answer to the own session.
        let well = [view(&[(1, 10_000), (7, 7_000)])];
        assert_eq!(of(&lock, short, LONG, &well), [""; 0]);
        let long_held = of(&lock, long, LONG, &well);
        assert_eq!(long_held, ["held for more than a minute while others wait"]);
        let silent = [view(&[(1, 10_000), (7, 5_000)])];
        assert_eq!(of(&lock, short, short.most, &silent), ["its holder is silent"]);
        assert_eq!(of(&lock, short, short.most, &[view(&[])]), ["its holder has no connection"]);
        // It may be connected to the other server of the ensemble.
        let all = [(1, "zk1".to_owned()), (2, "zk2".to_owned())].into_iter().collect();
        let mut one_of_two = [view(&[])];
        one_of_two[0].place.member = Ok(Member::Of { own: 1, all });
        assert_eq!(of(&lock, short, short.most, &one_of_two), [""; 0]);
        lock.layout = "Curator and kazoo".to_owned();
        assert_eq!(of(&lock, short, short.most, &well), ["its users do not exclude each other"]);
        lock.layout = "Curator".to_owned();
        lock.holders[0].zookeeper_session = 0;
        let stays = of(&lock, short, short.most, &well);
        assert_eq!(stays, ["its node belongs to no session and stays"]);
        lock.waiters.append(&mut lock.holders);
        assert_eq!(of(&lock, short, short.most, &well), ["nobody holds it, but somebody waits"]);
        lock.until = Some(std::time::SystemTime::UNIX_EPOCH);
        assert_eq!(of(&lock, short, short.most, &well), [""; 0]);
    }
    #[tokio::test]
    async fn the_age_of_a_node_alone_does_not_say_that_a_lock_is_held_for_long() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut lock = crate::ls::find(&session, None).await.unwrap().locks.remove(0);
        (lock.holders[0].zookeeper_session, lock.holders[0].owner.granted) = (7, None);
        let well = [view(&[(1, 10_000), (7, 9_000)])];
        let old = Held { most: 2 * LONG, least: Duration::ZERO };
        // It tells with its next heartbeat.
        assert_eq!(of(&lock, old, LONG, &well), [""; 0]);
        lock.holders[0].owner.pid = None;
        let never = "others wait for more than a minute, and its holder does not tell since when it holds it";
        assert_eq!(of(&lock, old, LONG, &well), [never]);
        // It was seen to get the lock.
        let new = Held { most: Duration::from_secs(1), least: Duration::ZERO };
        assert_eq!(of(&lock, new, LONG, &well), [""; 0]);
        let seen = of(&lock, Held { most: 2 * LONG, least: LONG }, LONG, &well);
        assert_eq!(seen, ["held for more than a minute while others wait"]);
    }
}
