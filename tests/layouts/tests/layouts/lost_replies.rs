//! Creations and deletions whose outcome nobody knows, in layouts whose names have no room for
//! anything unique: found again by payload, or by owner.

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::layout::{Curator, Kazoo, Numbered, OneNode, Removed};
use zklock::{LockOptions, Mode, Owner, Session};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::layout::new_node::Proof;
use zklock_test_support::{Action, Cut, Matcher, OpCode, Proxy};

use crate::bed::{Bed, acquiring, soon, until};

const WAYS: [Cut; 2] = [Cut::Fin, Cut::Reset];

/// Names and data that are the same for all, as in the documents' read/write lock.
#[derive(Debug)]
struct Fixed;

impl LockDriver for Fixed {
    fn prefix(&self, _: &Attempt, _: Mode) -> String {
        "write-node".to_owned()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Some(Contender::new(name, Contender::sequence_after(name, "write-node")?, Mode::Mutex))
    }

    fn payload(&self, _: &Attempt, _: Mode, _: &Owner) -> Vec<u8> {
        b"write".to_vec()
    }

    fn proof(&self) -> Proof {
        Proof::Owner
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }
}

/// What can become of a request and its reply when the connection breaks.
fn losses(opcode: OpCode) -> Vec<(Matcher, Action)> {
    let (request, reply) = (Matcher::request(opcode).first(1), Matcher::reply(opcode).first(1));
    WAYS.into_iter()
        .flat_map(|way| {
            [
                (request.clone(), Action::DropAndCut(way)),
                (request.clone(), Action::ForwardAndCut(way)),
                (reply.clone(), Action::DropAndCut(way)),
                (reply.clone(), Action::ForwardAndCut(way)),
            ]
        })
        .collect()
}

/// A session through a proxy, with the directory of the lock `a` made.
async fn proxied(bed: &Bed, driver: impl LockDriver) -> (Proxy, Session) {
    let proxy = bed.proxy();
    let session = bed.builder_at(&proxy.addr()).driver(driver).connect().await.unwrap();
    let session = bed.adopt(session);
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    (proxy, session)
}

/// All children of the lock `a`.
fn nodes(bed: &Bed) -> Vec<String> {
    let mut raw = bed.raw();
    let names = raw.children(&bed.path("a")).unwrap_or_default();
    raw.close().unwrap();
    names
}

async fn a_creation_in_doubt(bed: Bed, driver: impl LockDriver) {
    let (proxy, session) = proxied(&bed, driver).await;
    for (matcher, action) in losses(OpCode::Create2) {
        let rule = proxy.on(matcher, action);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!(rule.hits(), 1, "{action:?}");
        let left = nodes(&bed);
        assert_eq!(left.len(), 1, "{action:?}: {left:?}");
        assert!(guard.node_path().ends_with(&left[0]) && guard.is_valid());
        guard.release().await.unwrap();
        until("the node is gone", || nodes(&bed).is_empty().then_some(())).await;
        rule.release();
    }
    bed.end().await;
}

#[tokio::test]
async fn a_creation_in_doubt_is_found_by_its_name() {
    a_creation_in_doubt(Bed::shared("doubt-name"), Kazoo::default()).await;
}

#[tokio::test]
async fn a_creation_in_doubt_is_found_by_its_payload() {
    a_creation_in_doubt(Bed::shared("doubt-payload"), Numbered::dlock()).await;
}

#[tokio::test]
async fn a_creation_in_doubt_is_found_by_its_owner() {
    a_creation_in_doubt(Bed::shared("doubt-owner"), Fixed).await;
}

#[tokio::test]
async fn the_only_node_in_doubt_is_found_by_its_owner() {
    a_creation_in_doubt(Bed::shared("doubt-one"), OneNode).await;
}

/// Of one permit and of two, under the inner lock.
#[tokio::test]
async fn a_permit_of_kazoo_in_doubt_is_found_by_its_name() {
    let bed = Bed::shared("doubt-permit");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).driver(Kazoo::default());
    let session = bed.adopt(builder.connect().await.unwrap());
    let semaphore = session.semaphore("a", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for permits in [1, 2] {
        for (matcher, action) in losses(OpCode::Create2) {
            let rule = proxy.on(matcher.path("/a/"), action);
            let guard = soon("the permits", semaphore.acquire_many(permits)).await.unwrap();
            assert_eq!(rule.hits(), 1, "{action:?}");
            let left = nodes(&bed);
            assert_eq!(left.len(), permits as usize, "{action:?}: {left:?}");
            assert!(left.iter().any(|name| guard.node_path().ends_with(name)) && guard.is_valid());
            guard.release().await.unwrap();
            until("the nodes are gone", || nodes(&bed).is_empty().then_some(())).await;
            rule.release();
        }
    }
    bed.end().await;
}

/// Of several nodes of one session with the same name and data, the one in doubt is found: while it
/// holds one and waits with others, each gets its own.
#[tokio::test]
async fn nodes_that_look_the_same_are_not_confused() {
    for (at, driver) in [
        ("same-payload", Box::new(Numbered::dlock()) as Box<dyn Choose>),
        ("same-owner", Box::new(Fixed)),
    ] {
        let bed = Bed::shared(at);
        let proxy = bed.proxy();
        let builder = bed.builder_at(&proxy.addr()).defaults(LockOptions::default().fair(true));
        let session = bed.adopt(driver.choose(builder).connect().await.unwrap());
        session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
        let held = session.mutex("a").unwrap().acquire().await.unwrap();
        let held = held.detach();
        let mut waiting = Vec::new();
        for (count, (matcher, action)) in losses(OpCode::Create2).into_iter().take(4).enumerate() {
            let rule = proxy.on(matcher, action);
            waiting.push(acquiring(&session, "a"));
            // A node may be there before its reply is lost.
            until("its creation is in doubt", || (rule.hits() == 1).then_some(())).await;
            until("one more waits", || (nodes(&bed).len() == count + 2).then_some(())).await;
            rule.release();
        }
        assert!(held.is_valid());
        let mut paths = vec![held.node_path().to_owned()];
        held.release().await.unwrap();
        for next in waiting {
            let guard = soon("the next", next).await.unwrap();
            paths.push(guard.node_path().to_owned());
            assert!(guard.is_valid());
            guard.release().await.unwrap();
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 5, "{paths:?}");
        bed.end().await;
    }
}

trait Choose {
    fn choose(self: Box<Self>, builder: zklock::SessionBuilder) -> zklock::SessionBuilder;
}

impl<D: LockDriver> Choose for D {
    fn choose(self: Box<Self>, builder: zklock::SessionBuilder) -> zklock::SessionBuilder {
        builder.driver(*self)
    }
}

/// The wish that it be let go takes the place of the data by which a node is found again.
#[tokio::test]
async fn a_creation_in_doubt_is_found_although_it_was_asked_to_let_go() {
    let bed = Bed::shared("doubt-revoked");
    let (proxy, session) = proxied(&bed, Numbered::dlock()).await;
    let other = bed.adopt(bed.builder().driver(Numbered::dlock()).connect().await.unwrap());
    for way in WAYS {
        let lost = Matcher::reply(OpCode::Create2).first(1);
        let rule = proxy.on(lost, Action::DropAndCut(way));
        proxy.refuse(true);
        let acquired = acquiring(&session, "a");
        until("the creation is lost", || (rule.hits() == 1).then_some(())).await;
        assert_eq!(other.site("a").unwrap().revoke().await.unwrap(), 1);
        proxy.refuse(false);
        let guard = soon("the lock", acquired).await.unwrap();
        assert_eq!(nodes(&bed).len(), 1, "{way:?}");
        soon("the wish", guard.revoked()).await;
        guard.release().await.unwrap();
        assert_eq!(nodes(&bed).len(), 0, "{way:?}");
        rule.release();
    }
    bed.end().await;
}

/// Whatever somebody writes there: the node would stay as long as the session, in everybody's way.
#[tokio::test]
async fn a_creation_in_doubt_is_found_although_its_data_were_overwritten() {
    let bed = Bed::shared("doubt-overwritten");
    let (proxy, session) = proxied(&bed, Numbered::dlock()).await;
    for way in WAYS {
        let lost = Matcher::reply(OpCode::Create2).first(1);
        let rule = proxy.on(lost, Action::DropAndCut(way));
        proxy.refuse(true);
        let acquired = acquiring(&session, "a");
        until("the creation is lost", || (rule.hits() == 1).then_some(())).await;
        let node = format!("{}/{}", bed.path("a"), nodes(&bed)[0]);
        bed.raw().set_data(&node, b"somebody was here").unwrap();
        proxy.refuse(false);
        let guard = soon("the lock", acquired).await.unwrap();
        assert_eq!((guard.node_path(), nodes(&bed).len()), (&*node, 1), "{way:?}");
        guard.release().await.unwrap();
        assert_eq!(nodes(&bed).len(), 0, "{way:?}");
        rule.release();
    }
    bed.end().await;
}

/// A deletion that is repeated must not hit the node that somebody else has made there meanwhile.
#[tokio::test]
async fn a_deletion_in_doubt_spares_the_next_holder() {
    let bed = Bed::shared("doubt-delete");
    let (proxy, session) = proxied(&bed, OneNode).await;
    let other = bed.adopt(bed.builder().driver(OneNode).connect().await.unwrap());
    for (number, (matcher, action)) in losses(OpCode::Delete).into_iter().enumerate() {
        let rule = proxy.on(matcher, action);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        let (waiting, path) = (acquiring(&other, "a"), guard.node_path().to_owned());
        until("the other waits", || bed.watched_by(&other).contains(&path).then_some(())).await;
        proxy.refuse(true);
        let releasing = tokio::spawn(guard.release());
        until("the deletion is in doubt", || (rule.hits() == 1).then_some(())).await;
        // Of each four, it is lost in the first.
        if number % 4 != 0 {
            until("the other is inside", || waiting.is_finished().then_some(())).await;
        }
        proxy.refuse(false);
        let next = soon("the next", waiting).await.unwrap();
        soon("the release", releasing).await.unwrap().unwrap();
        assert_eq!(nodes(&bed), ["lock"], "{action:?}");
        assert!(next.is_valid(), "{action:?}");
        next.release().await.unwrap();
        rule.release();
    }
    // An answered release may have cut the connection, and only who is connected can say goodbye.
    soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
    bed.end().await;
}

/// Nor must a wish that is sent again.
#[tokio::test]
async fn a_wish_in_doubt_spares_the_next_holder() {
    let bed = Bed::shared("doubt-wish");
    let (proxy, session) = proxied(&bed, OneNode).await;
    let builder = || bed.builder().driver(OneNode);
    let one = bed.adopt(builder().connect().await.unwrap());
    let two = bed.adopt(builder().connect().await.unwrap());
    let alone = [(Matcher::reply(OpCode::SetData).first(1), Action::Drop)];
    for (matcher, action) in losses(OpCode::SetData).into_iter().chain(alone) {
        let guard = soon("the lock", one.mutex("a").unwrap().acquire()).await.unwrap();
        let (waiting, path) = (acquiring(&two, "a"), guard.node_path());
        until("the other waits", || bed.watched_by(&two).iter().any(|it| it == path).then_some(()))
            .await;
        let rule = proxy.on(matcher, action);
        proxy.refuse(true);
        let wish = tokio::spawn({
            let site = session.site("a").unwrap();
            async move { site.revoke().await }
        });
        until("the wish is in doubt", || (rule.hits() == 1).then_some(())).await;
        guard.release().await.unwrap();
        let next = soon("the next", waiting).await.unwrap();
        proxy.refuse(false);
        assert_eq!(soon("the wish", wish).await.unwrap().unwrap(), 1, "{action:?}");
        let mut raw = bed.raw();
        let data = String::from_utf8(raw.data(next.node_path()).unwrap()).unwrap();
        raw.close().unwrap();
        assert!(!data.contains("REVOKE") && !data.contains("revoked"), "{action:?}: {data}");
        next.release().await.unwrap();
        rule.release();
        // An answer may have cut the connection.
        let again = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        again.release().await.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn a_cancelled_creation_in_doubt_leaves_nothing() {
    for (at, driver) in [
        ("cancel-payload", Box::new(Numbered::dlock()) as Box<dyn Choose>),
        ("cancel-owner", Box::new(Fixed)),
        ("cancel-one", Box::new(OneNode)),
        ("cancel-removed", Box::new(Removed::after(Curator))),
    ] {
        let bed = Bed::shared(at);
        let proxy = bed.proxy();
        let builder = bed.builder_at(&proxy.addr());
        let session = bed.adopt(driver.choose(builder).connect().await.unwrap());
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        bed.keep_directory("a");
        guard.release().await.unwrap();
        for (matcher, action) in losses(OpCode::Create2) {
            let rule = proxy.on(matcher, action);
            proxy.refuse(true);
            let cancelled = acquiring(&session, "a");
            until("the creation is lost", || (rule.hits() == 1).then_some(())).await;
            cancelled.abort();
            drop(cancelled.await);
            proxy.refuse(false);
            drop(soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap());
            until("nothing is left", || (nodes(&bed) == ["keep"]).then_some(())).await;
            rule.release();
        }
        bed.end().await;
    }
}
