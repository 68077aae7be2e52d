//! Whether the process behind a node still lives, as far as ZooKeeper knows.

use std::time::Duration;

use zklock::Participant;

use crate::why::view::View;

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
    /// No server has a connection of it. It ends when its timeout is over.
    Alone,
    /// Not all servers tell.
    Unknown { why: String },
}

impl Life {
    /// What the servers know about the session of a contender.
    pub(crate) fn of(one: &Participant, views: &[View]) -> Life {
        if one.session == 0 {
            return Life::Stays;
        }
        let mut unknown = views.is_empty().then(|| "no server was asked".to_owned());
        for view in views {
            let told = match &view.connections {
                Ok(told) => told,
                Err(why) => {
                    unknown.get_or_insert_with(|| format!("{}: {why}", view.server));
                    continue;
                }
            };
            let Some(found) = told.iter().find(|found| found.session == one.session) else {
                continue;
            };
            let own = told.iter().find(|known| Some(known.session) == view.own);
            let now = own.or_else(|| told.iter().max_by_key(|known| known.answered));
            let heard = now.map_or(0, |now| now.answered.saturating_sub(found.answered));
            return Life::Connected {
                server: view.server.clone(),
                from: found.from.clone(),
                timeout: found.timeout,
                heard: Duration::from_millis(heard.try_into().unwrap_or(0)),
                at_least: own.is_none(),
            };
        }
        unknown.map_or(Life::Alone, |why| Life::Unknown { why })
    }

    /// Whether the process does not send what it should. A client of zklock is heard at least each
    /// sixth of its session timeout while it holds a lock, and others each third.
    pub(crate) fn is_silent(&self, one: &Participant) -> bool {
        match self {
            Life::Connected { timeout, heard, .. } => {
                let zklock = one.holder && one.owner.pid.is_some();
                *heard > if zklock { *timeout / 3 } else { *timeout / 2 }
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Connection;
    use zklock::Session;

    /// Whatever a server tells: the difference of these two does not fit.
    #[tokio::test]
    async fn what_a_server_tells_of_its_clock_does_no_harm() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        one.session = 7;
        let told = |session, answered| Connection {
            session,
            from: "b:2".to_owned(),
            timeout: Duration::from_secs(6),
            answered,
        };
        let connections = Ok(vec![told(1, i64::MAX), told(7, i64::MIN)]);
        let (server, queues) = ("a:1".to_owned(), Ok(Vec::new()));
        let life = Life::of(&one, &[View { server, queues, connections, own: Some(1) }]);
        assert!(matches!(life, Life::Connected { .. }) && life.is_silent(&one), "{life:?}");
    }

    #[tokio::test]
    async fn who_is_not_heard_for_longer_than_it_should_be_is_silent() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        let is_silent = |one: &Participant, millis: u64| {
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
