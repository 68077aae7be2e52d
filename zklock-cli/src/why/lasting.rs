//! What is normal for a moment, and wrong only if it lasts: a reader before a writer, and a holder that was asked to
//! release the lock.

use std::time::Duration;

use zklock::{ContenderInfo, Mode};

use crate::held::granted;
use crate::ls::who;
use crate::when::{since, span};
use crate::why::life::Life;
use crate::why::problems::{Facts, Problem, USUAL_TIMEOUT};
use crate::why::view::Queue;

/// How long a contender has held the lock, at the most. Clients of zklock tell with a heartbeat when they were granted
/// it, so those that have not told hold it for less.
fn held_for(one: &ContenderInfo) -> Duration {
    match (granted(one), one.owner.pid) {
        (Some(moment), _) => since(moment),
        (None, Some(_)) => Duration::ZERO,
        (None, None) => since(one.created),
    }
}

impl Facts<'_> {
    /// What a holder may do for so long is its work: a session timeout, for which a lock is taken anyway when its
    /// holder dies.
    fn patience(&self, one: &ContenderInfo) -> Duration {
        match Life::of(one, self.views) {
            Life::Connected { timeout, .. } => timeout,
            _ => USUAL_TIMEOUT,
        }
    }

    /// A holder that has not listened for longer than a session timeout. Since its node was written last it has been
    /// asked, so it was asked before.
    pub(super) fn of_asked(&self, one: &ContenderInfo) -> Option<Problem> {
        let ago = since(one.written);
        if !one.owner.revoked || ago <= self.patience(one) {
            return None;
        }
        let says = format!(
            "The holder ({}) was asked to release the lock and has not done so, for {} at least. A holder \
             decides itself; Curator listens only if its lock was made revocable, and kazoo never.",
            who(one),
            span(ago)
        );
        Some(Problem::new("asked", says, vec![self.breaks(one)]))
    }

    /// A holder that was asked and may be about to release, and how long ago.
    pub(super) fn just_asked(&self) -> Option<(&ContenderInfo, String)> {
        let mut asked = self.queues.iter().flat_map(Queue::holders);
        asked.find(|one| one.owner.revoked).map(|one| (one, span(since(one.written))))
    }

    /// A writer that has waited for readers for longer than a session timeout, and others behind it.
    pub(super) fn of_waiters(&self, queue: &Queue) -> Option<Problem> {
        let writer = queue.waiters().next().filter(|one| one.mode == Mode::Write)?;
        let readers: Vec<_> = queue.holders().filter(|one| one.mode == Mode::Read).collect();
        let slowest = readers.iter().min_by_key(|one| one.created)?;
        let waited = since(writer.created);
        // Both may have waited for somebody else before.
        if waited.min(held_for(slowest)) <= self.patience(slowest) {
            return None;
        }
        let behind = queue.waiters().count() - 1;
        let others = match behind {
            0 => String::new(),
            1 => ", and one more waits behind it".to_owned(),
            behind => format!(", and {behind} more wait behind it"),
        };
        let says = format!(
            "A writer ({}) waits for {}, for {} now{others}. The reader that came first is {}, {} ago.",
            who(writer),
            match readers.len() {
                1 => "a reader".to_owned(),
                several => format!("{several} readers"),
            },
            span(waited),
            who(slowest),
            span(since(slowest.created))
        );
        let helps = self.revokes().into_iter().chain([self.breaks(slowest)]).collect();
        Some(Problem::new("reader", says, helps))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::why::example::{facts, queue, view};
    use crate::words::Connection;
    use zklock::{Session, Survey};

    const TIMEOUT: Duration = Duration::from_secs(6);

    /// A lock that a process of zklock got at some time, and the present.
    async fn held() -> (Survey, SystemTime) {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut survey = session.site("a").unwrap().survey().await.unwrap();
        survey.queue[0].zookeeper_session = 7;
        survey.queue[0].owner.granted = None;
        let now = survey.queue[0].created;
        (survey, now)
    }

    /// The codes of what `why` says, and its words.
    fn told(survey: &Survey) -> (Vec<&'static str>, String) {
        let problems = problems(survey);
        let says = problems.iter().map(|one| &*one.says).collect::<Vec<_>>().join("\n");
        (problems.iter().map(|one| one.code).collect(), says)
    }

    fn problems(survey: &Survey) -> Vec<Problem> {
        let connection =
            Connection { session: 7, from: "b:2".to_owned(), timeout: TIMEOUT, answered: 1 };
        let queues = [queue(survey.clone())];
        let views = [view("x:1", queues[0].clone(), Ok(vec![connection]))];
        facts(&views, &queues, "x:1").problems()
    }

    #[tokio::test]
    async fn a_writer_behind_a_reader_is_wrong_only_after_a_session_timeout() {
        let (mut survey, now) = held().await;
        let ago = |seconds| now - Duration::from_secs(seconds);
        let at = |seconds| Some(humantime::format_rfc3339_millis(ago(seconds)).to_string());
        survey.queue[0].mode = Mode::Read;
        survey.queue[0].created = ago(60);
        let mut writer = survey.queue[0].clone();
        (writer.holds, writer.mode, writer.node) = (false, Mode::Write, "n".to_owned());
        survey.queue.push(writer);
        let mut codes = |waited, granted: Option<String>, pid| {
            survey.queue[1].created = ago(waited);
            survey.queue[0].owner.granted = granted;
            survey.queue[0].owner.pid = pid;
            told(&survey).0
        };
        assert_eq!(codes(4, at(50), Some(1)), ["held"]);
        assert_eq!(codes(9, at(50), Some(1)), ["reader"]);
        // Both waited for somebody else until a moment ago.
        assert_eq!(codes(9, at(4), Some(1)), ["held"]);
        assert_eq!(codes(9, None, Some(1)), ["held"]);
        // Others never tell.
        assert_eq!(codes(9, None, None), ["reader"]);
    }

    #[tokio::test]
    async fn a_holder_that_was_asked_is_wrong_only_after_a_session_timeout() {
        let (mut survey, now) = held().await;
        let mut waiter = survey.queue[0].clone();
        (waiter.holds, waiter.node) = (false, "n".to_owned());
        survey.queue.push(waiter);
        let helps = |survey: &Survey| {
            let helps = problems(survey).remove(0).helps;
            helps.iter().filter_map(|line| line.split(' ').nth(1)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(helps(&survey), "revoke break");
        survey.queue[0].owner.revoked = true;
        assert_eq!(helps(&survey), "break");
        survey.queue[0].written = now - Duration::from_secs(4);
        let (codes, says) = told(&survey);
        assert_eq!(codes, ["held"]);
        assert!(
            says.contains(" It was asked to release the lock 4.") && says.contains("may yet"),
            "{says}"
        );
        survey.queue[0].written = now - Duration::from_secs(9);
        let (codes, says) = told(&survey);
        assert_eq!(codes, ["asked"]);
        assert!(says.contains("for 9.") && says.contains(" at least"), "{says}");
    }
}
