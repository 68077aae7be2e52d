//! Whether the process behind a node still lives, as far as ZooKeeper knows.

use std::time::Duration;

use zklock::ContenderInfo;

use crate::member::{Gap, gap};
use crate::when::span;
use crate::why::view::View;
use crate::words::Connection;

/// What the servers know about the session of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The node belongs to no session: it stays until somebody deletes it.
    Stays,
    /// A server has a connection of it.
    Connected {
        server: String,
        from: String,
        timeout: Duration,
        /// How long ago the server last answered its client.
        heard: Duration,
        /// Whether it may be longer, because nothing tells the present time of that server's clock.
        at_least: bool,
    },
    /// All servers of the ensemble were asked, and none has a connection of it. It ends when its timeout is over.
    Alone,
    /// Not all servers tell.
    Unknown { why: String },
    /// Not all servers of the ensemble were asked.
    Unasked { why: String },
}

impl Life {
    /// What the servers know about the session of a contender.
    pub(crate) fn of(one: &ContenderInfo, views: &[View]) -> Life {
        if one.zookeeper_session == 0 {
            return Life::Stays;
        }
        if views.iter().any(|view| view.unsure.contains(&one.zookeeper_session)) {
            let why = "its session began or ended while the servers were asked";
            return Life::Unknown { why: why.to_owned() };
        }
        let mut unknown = views.is_empty().then(|| "no server was asked".to_owned());
        // Who has moved to another server: the first one lists the dead connection for a while.
        let mut latest: Option<(Duration, bool, &View, &Connection)> = None;
        for view in views {
            let told = match &view.connections {
                Ok(told) => told,
                Err(why) => {
                    unknown.get_or_insert_with(|| format!("{}: {why}", view.server));
                    continue;
                }
            };
            let own = told.iter().find(|known| Some(known.session) == view.own);
            let now = own.or_else(|| told.iter().max_by_key(|known| known.answered));
            for found in told.iter().filter(|found| found.session == one.zookeeper_session) {
                let heard = now.map_or(0, |now| now.answered.saturating_sub(found.answered));
                let heard = Duration::from_millis(heard.try_into().unwrap_or(0));
                let at_least = own.is_none();
                if latest.is_none_or(|latest| (heard, at_least) < (latest.0, latest.1)) {
                    latest = Some((heard, at_least, view, found));
                }
            }
        }
        let unknown = || unknown.map(Gap::Untold).or_else(|| gap_of(views));
        let Some((heard, at_least, view, found)) = latest else {
            return unknown().map_or(Life::Alone, |gap| gap.life(""));
        };
        let server = view.server.clone();
        let (from, timeout) = (found.from.clone(), found.timeout);
        let life = Life::Connected { server, from, timeout, heard, at_least };
        // It may have moved to a server that does not tell, or that was not asked.
        match life.is_silent(one).then(unknown).flatten() {
            Some(gap) => {
                gap.life(&format!("{} last heard of it {} ago; ", view.server, span(heard)))
            }
            None => life,
        }
    }

    /// Whether the servers, or those of them that were asked, do not tell, or nobody measures how long ago it was.
    pub(crate) fn is_untold(&self) -> bool {
        matches!(
            self,
            Life::Unknown { .. } | Life::Unasked { .. } | Life::Connected { at_least: true, .. }
        )
    }

    /// Whether the process does not send what it should. A client of zklock is heard at least each
    /// sixth of its session timeout while it holds a lock, and others each third.
    pub(crate) fn is_silent(&self, one: &ContenderInfo) -> bool {
        match self {
            Life::Connected { timeout, heard, .. } => {
                let zklock = one.holds && one.owner.pid.is_some();
                *heard > if zklock { *timeout / 3 } else { *timeout / 2 }
            }
            _ => false,
        }
    }
}

impl Gap {
    /// What is known for certain with it.
    fn life(self, heard: &str) -> Life {
        match self {
            Gap::Untold(why) => Life::Unknown { why: format!("{heard}{why}") },
            Gap::Unasked(why) => Life::Unasked { why: format!("{heard}{why}") },
        }
    }
}

fn gap_of(views: &[View]) -> Option<Gap> {
    gap(views.iter().map(|view| (&*view.server, &view.place.member)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::member::{Member, Place};
    use zklock::Session;

    fn told(session: i64, answered: i64) -> Connection {
        let (from, timeout) = (format!("b:{answered}"), Duration::from_secs(6));
        Connection { session, from, timeout, answered }
    }

    /// Whatever a server tells: the difference of these two does not fit.
    #[tokio::test]
    async fn what_a_server_tells_of_its_clock_does_no_harm() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        one.zookeeper_session = 7;
        let connections = Ok(vec![told(1, i64::MAX), told(7, i64::MIN)]);
        let (server, place, queues) = ("a:1".to_owned(), Place::alone(), Ok(Vec::new()));
        let (own, unsure) = (Some(1), BTreeSet::new());
        let life = Life::of(&one, &[View { server, place, queues, connections, own, unsure }]);
        assert!(matches!(life, Life::Connected { .. }) && life.is_silent(&one), "{life:?}");
    }

    /// A server lists a dead connection for as long as it takes it for alive.
    #[tokio::test]
    async fn who_has_moved_to_another_server_is_heard_there() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        one.zookeeper_session = 7;
        let view = |server: &str, connections: Vec<Connection>| View {
            server: server.to_owned(),
            place: Place::alone(),
            queues: Ok(Vec::new()),
            connections: Ok(connections),
            own: Some(1),
            unsure: BTreeSet::new(),
        };
        let left = || view("x:1", vec![told(1, 90_000), told(7, 85_000)]);
        let came = || view("y:2", vec![told(1, 10_000), told(7, 4_000), told(7, 9_500)]);
        for views in [[left(), came()], [came(), left()]] {
            let life = Life::of(&one, &views);
            assert!(!life.is_silent(&one), "{life:?}");
            let Life::Connected { server, from, .. } = life else { panic!("{life:?}") };
            assert_eq!((&*server, &*from), ("y:2", "b:9500"));
        }
    }

    /// Whoever is called at night may know one server only.
    #[tokio::test]
    async fn nobody_is_lost_before_all_servers_of_the_ensemble_are_asked() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        one.zookeeper_session = 7;
        // The first one has heard of it so many milliseconds ago, if at all.
        let view = |number: u64, ago: Option<i64>| {
            let all = [1, 2, 3].map(|number| (number, format!("zk{number}")));
            let member = Ok(Member::Of { own: number, all: all.into_iter().collect() });
            let heard = ago.map(|ago| told(7, 90_000 - ago));
            View {
                server: format!("zk{number}:2181"),
                place: Place { at: String::new(), member },
                queues: Ok(Vec::new()),
                connections: Ok([told(1, 90_000)].into_iter().chain(heard).collect()),
                own: Some(1),
                unsure: BTreeSet::new(),
            }
        };
        let all = |ago: Option<i64>| [view(1, ago), view(2, None), view(3, None)];
        assert_eq!(Life::of(&one, &all(None)), Life::Alone);
        assert!(Life::of(&one, &all(Some(3_000))).is_silent(&one));
        for few in [1, 2] {
            let Life::Unasked { why } = Life::of(&one, &all(None)[..few]) else { panic!("{few}") };
            assert!(why.starts_with("only zk1:2181") && why.contains("server.3 (zk3)"), "{why}");
            let silent = Life::of(&one, &all(Some(3_000))[..few]);
            let Life::Unasked { why } = silent else { panic!("{silent:?}") };
            assert!(why.starts_with("zk1:2181 last heard of it 3.0 s ago; only zk1"), "{why}");
            // It lives, wherever else it is.
            let lives = Life::of(&one, &all(Some(1_000))[..few]);
            assert!(matches!(lives, Life::Connected { .. }), "{lives:?}");
        }
        // Two names of one server.
        let twice = [view(1, None), view(1, None), view(2, None)];
        assert!(matches!(Life::of(&one, &twice), Life::Unasked { .. }));
        // One that does not say who it is may be the third, and one that does not tell its connections may have it.
        for (ago, heard) in [(None, ""), (Some(3_000), "zk1:2181 last heard of it 3.0 s ago; ")] {
            let why = format!("{heard}zk3:2181: silent");
            let mut untold = all(ago);
            untold[2].place.member = Err("silent".to_owned());
            assert_eq!(Life::of(&one, &untold), Life::Unknown { why: why.clone() });
            let mut untold = all(ago);
            untold[2].connections = Err("silent".to_owned());
            assert_eq!(Life::of(&one, &untold), Life::Unknown { why });
        }
    }

    #[tokio::test]
    async fn who_is_not_heard_for_longer_than_it_should_be_is_silent() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        let is_silent = |one: &ContenderInfo, millis: u64| {
            let life = Life::Connected {
                server: "a:1".to_owned(),
                from: "b:2".to_owned(),
                timeout: Duration::from_secs(6),
                heard: Duration::from_millis(millis),
                at_least: false,
            };
            life.is_silent(one)
        };
        assert!(!is_silent(&one, 2_000) && is_silent(&one, 2_001));
        // Another client, which pings less often.
        one.owner.pid = None;
        assert!(!is_silent(&one, 3_000) && is_silent(&one, 3_001));
    }
}
