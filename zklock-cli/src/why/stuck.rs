//! Who waits at a server whose data differ from its leader's.
//!
//! Such a server shows a node that the others do not know. So by the data of the others somebody may be the first
//! in the queue who waits for that node all the same, because of what its own server shows.

use zklock::ContenderInfo;

use crate::why::life::Life;
use crate::why::view::{Queue, View};

/// The server at which a contender waits, if that server shows a node that its leader does not know.
pub(crate) fn stuck_at<'v>(one: &ContenderInfo, views: &'v [View]) -> Option<&'v str> {
    // Who was granted the lock no longer waits, whatever its server shows now.
    if one.owner.granted.is_some() {
        return None;
    }
    let Life::Connected { server, .. } = Life::of(one, views) else { return None };
    let view = views.iter().find(|view| view.server == server)?;
    let is_it = |other: &ContenderInfo| (&other.node, other.czxid) == (&one.node, one.czxid);
    let waits = |queue: &Queue| queue.survey.phantom.is_some() && queue.waiters().any(is_it);
    view.queues.as_ref().is_ok_and(|queues| queues.iter().any(waits)).then_some(&*view.server)
}

/// The queues as one server shows them, in which who waits elsewhere is no holder.
pub(super) fn without_stuck_holders(queues: &[Queue], views: &[View]) -> Vec<Queue> {
    let mut queues = queues.to_vec();
    for one in queues.iter_mut().flat_map(|queue| &mut queue.survey.queue) {
        one.holds &= stuck_at(one, views).is_none();
    }
    queues
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::why::example::{self, facts, queue};
    use crate::why::show::text;
    use crate::words::Connection;
    use zklock::{Session, Survey};

    const SESSION: i64 = 7;

    /// What a server says of the queue of a lock, and whether the one who waits is connected to it.
    fn view(server: &str, survey: Survey, is_there: bool) -> View {
        let connection = Connection {
            session: SESSION,
            from: "b:2".to_owned(),
            timeout: Duration::from_secs(10),
            answered: 1,
        };
        let connections = Ok(if is_there { vec![connection] } else { Vec::new() });
        example::view(server, queue(survey), connections)
    }

    /// By a server that is right, and by the one that differs.
    async fn surveys() -> (Survey, Survey) {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut right = session.site("a").unwrap().survey().await.unwrap();
        right.queue[0].zookeeper_session = SESSION;
        right.queue[0].owner.granted = None;
        let mut wrong = right.clone();
        let mut phantom = wrong.queue[0].clone();
        (phantom.node, phantom.czxid) = ("_c_0-lock-0000000000".to_owned(), 1);
        wrong.queue[0].holds = false;
        wrong.phantom = Some(format!("/zklock/a/{}", phantom.node));
        wrong.queue.insert(0, phantom);
        (right, wrong)
    }

    /// What `zklock why` says, and how many hold the lock by what it tells programs.
    fn told(views: &[View]) -> (String, usize) {
        let queues = views.last().unwrap().queues.as_ref().unwrap();
        let queues = without_stuck_holders(queues, views);
        let facts = facts(views, &queues, "y:2");
        let text = text(&facts, &facts.problems());
        (text, queues.iter().flat_map(Queue::holders).count())
    }

    #[tokio::test]
    async fn who_waits_at_a_server_that_differs_is_no_holder() {
        let (right, wrong) = surveys().await;
        let views = [view("x:1", wrong, true), view("y:2", right, false)];
        let (text, holders) = told(&views);
        assert_eq!((holders, text.contains("held by")), (0, false), "{text}");
        let head = "\n\nNobody holds it. Who is first in the queue waits at x:1, whose data differ from its \
                    leader's.\n\nwaiting  1\n";
        assert!(text.contains(head), "{text}");
        assert!(text.contains(", mutex, for ") && text.contains(" s, at x:1\n"), "{text}");
    }

    #[tokio::test]
    async fn who_holds_the_lock_elsewhere_or_longer_is_a_holder() {
        let (right, wrong) = surveys().await;
        let elsewhere = [view("x:1", wrong.clone(), false), view("y:2", right.clone(), true)];
        assert_eq!(told(&elsewhere).1, 1);
        let mut longer = right.clone();
        longer.queue[0].owner.granted = Some("2026-11-22T20:20:01.154Z".to_owned());
        assert_eq!(told(&[view("x:1", wrong.clone(), true), view("y:2", longer, false)]).1, 1);
        // A server that does not differ, and has not heard of the grant.
        let mut late = wrong;
        late.phantom = None;
        assert_eq!(told(&[view("x:1", late, true), view("y:2", right, false)]).1, 1);
    }

    #[tokio::test]
    async fn a_holder_that_one_server_alone_shows_is_told_as_such() {
        let (_, wrong) = surveys().await;
        let (text, _) = told(&[view("y:2", wrong, true)]);
        assert!(text.contains("\nheld by  "), "{text}");
        assert!(
            text.contains(", mutex: only y:2 says so, and its leader does not know the node\n"),
            "{text}"
        );
    }
}
