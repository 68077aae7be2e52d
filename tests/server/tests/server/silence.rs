//! Networks that go silent: no end, no reset, no answer. On a busy day; where a session must be idle, the
//! traffic is beside it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use zklock::{ErrorKind, MutexGuard, Session, SessionState};
use zklock_test_support::{
    Action, Control, Cut, Direction, Matcher, OpCode, Proxy, Rule, measured, monotonic_ns,
};

use crate::bed::{Bed, TICK, acquiring, soon, until};
use crate::busy::Busy;
use crate::kinds::NEXT;

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

struct Cast {
    bed: Bed,
    proxy: Proxy,
    holder: Session,
    guard: MutexGuard,
    busy: Busy,
}

/// A holder behind a proxy.
async fn cast(root: &str) -> Cast {
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    let holder = bed.builder_at(&proxy.addr()).session_timeout(SESSION_TIMEOUT);
    let holder = bed.adopt(holder.connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&holder]).await;
    let guard = soon("the lock", acquiring(&holder, "a")).await.unwrap();
    Cast { bed, proxy, holder, guard, busy }
}

/// The guard is lost, and then somebody else is granted.
async fn lost_before_granted(cast: Cast, silence: impl FnOnce(&Proxy)) {
    let Cast { bed, proxy, holder, guard, busy } = cast;
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    let granted = tokio::spawn(async move {
        let guard = waiting.await.unwrap();
        (guard, monotonic_ns())
    });
    let control = Control::of(bed.server());
    silence(&proxy);
    let start = monotonic_ns();
    soon("the loss", guard.lost()).await;
    let lost = monotonic_ns();
    assert!(!guard.is_valid());
    let (next, granted) = soon("the next", granted).await.unwrap();
    let after = |at: u64| Duration::from_nanos(at - start);
    println!("silent: lost after {:?}, granted after {:?}", after(lost), after(granted));
    assert!(lost < granted);
    // The last that the server heard of the holder may be a connection after that.
    let mut heard = proxy.log();
    heard.retain(|frame| frame.direction == Direction::ToServer && !frame.was_dropped());
    let silent = heard.iter().map(|frame| frame.at_ns).fold(start, u64::max);
    let took = Duration::from_nanos(granted - silent);
    control.within_answers("silent: another is granted", took, SESSION_TIMEOUT + 2 * TICK, NEXT);
    assert!(next.fencing_token() > guard.fencing_token());
    // Nobody who asks now is told anything but the truth, and in time.
    let (limit, control, start) = (Duration::from_millis(200), Control::timers(), Instant::now());
    let error = holder.mutex("b").unwrap().acquire_timeout(limit).await.unwrap_err();
    control.within("an acquire in silence", start.elapsed(), limit);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    proxy.heal();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
    let again = soon("the lock", acquiring(&holder, "a")).await.unwrap();
    assert!(again.is_valid());
    again.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn behind_a_black_hole_a_guard_is_lost_before_another_is_granted() {
    lost_before_granted(cast("black-hole").await, |proxy| proxy.black_hole(true)).await;
}

#[tokio::test]
async fn a_link_that_dies_right_after_the_connect_response_deceives_nobody() {
    let cast = cast("dead-link").await;
    lost_before_granted(cast, |proxy| {
        proxy.refuse(true);
        let connections = u64::try_from(proxy.connections()).unwrap();
        proxy.cut(Cut::Fin);
        // Of each connection, the answer to the connect passes; nothing after it does, either way.
        for connect in [Matcher::request(OpCode::Connect), Matcher::reply(OpCode::Connect)] {
            proxy.on(connect.first(connections), Action::Pass);
        }
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.on(Matcher::any(direction), Action::Drop);
        }
        proxy.refuse(false);
    })
    .await;
}

#[tokio::test]
async fn a_link_that_dies_right_after_the_first_connect_response_is_no_connection() {
    let bed = Bed::shared("dead-at-first");
    let proxy = bed.proxy();
    let busy = bed.busy(&[&bed.session().await]).await;
    let limit = Duration::from_secs(1);
    proxy.on(Matcher::any(Direction::ToClient).after(1), Action::Drop);
    let builder = bed.builder_at(&proxy.addr()).connect_timeout(limit);
    let (control, start) = (Control::timers(), Instant::now());
    let error = builder.clone().connect().await.unwrap_err();
    control.within("a connect in vain", start.elapsed(), limit);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(format!("{error:#}").contains(&proxy.addr()), "{error}");
    let session = bed.adopt(builder.open().unwrap());
    let start = Instant::now();
    let error = session.mutex("a").unwrap().acquire_timeout(limit).await.unwrap_err();
    control.within("an acquire in vain", start.elapsed(), limit);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!session.is_ready());
    proxy.heal();
    soon("the lock", acquiring(&session, "a")).await.unwrap().release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_short_silence_costs_nothing() {
    const T: Duration = Duration::from_secs(20);
    let bed = Bed::shared("short-silence");
    let proxy = bed.proxy();
    // On its one connection the traffic writes until the silence begins, so that a whole lease is left.
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
    let holder = bed.adopt(builder.clone().connect().await.unwrap());
    let both = [holder, bed.adopt(builder.connect().await.unwrap())];
    let before = both.each_ref().map(Session::zookeeper_session);
    // It costs the traffic nothing, either.
    let mut busy = bed.busy_in_one_lane(&[&both[0]]).await;
    let guard = soon("the lock", acquiring(&both[0], "a")).await.unwrap();
    let waiting = acquiring(&both[1], "a");
    let queue = bed.until_contenders("a", 2).await;
    let connections = proxy.connections_total();
    proxy.black_hole(true);
    // Longer than the 4 T/15 after which a client leaves a connection, and shorter than a lease of 11 T/20.
    tokio::time::sleep(T * 2 / 5).await;
    assert!(guard.is_valid());
    assert!(proxy.connections_total() >= connections + 2, "nobody has left its connection");
    proxy.black_hole(false);
    let connected = |session: &Session| session.state() == SessionState::Connected;
    until("both are back", || both.iter().all(connected).then_some(())).await;
    busy.count_anew();
    // Long enough for a grant to somebody who waits.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(guard.is_valid() && !waiting.is_finished());
    assert_eq!(bed.contenders("a"), queue);
    guard.release().await.unwrap();
    let next = soon("the lock", waiting).await.unwrap();
    assert!(next.node_path().ends_with(&queue[1]));
    assert_eq!(before, both.each_ref().map(Session::zookeeper_session));
    next.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// When something was sent to the server, by each ZooKeeper session.
fn sent(proxies: &[&Proxy]) -> BTreeMap<i64, Vec<Instant>> {
    let mut sent: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for frame in proxies.iter().flat_map(|proxy| proxy.log()) {
        if frame.direction == Direction::ToServer {
            sent.entry(frame.session).or_default().push(frame.at);
        }
    }
    sent.values_mut().for_each(|sent| sent.sort_unstable());
    sent
}

fn longest_silence(sent: &[Instant]) -> Duration {
    sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

/// What the margin of a lease allows for. The rest of it is half a tick of the server, which does not tell its
/// tick.
fn allowed(session: &Session) -> Duration {
    let timing = session.timing().unwrap();
    timing.margin - timing.session_timeout / 4
}

/// The margin of a lease counts on it: a client that has nothing to ask pings in time, with one server in
/// its list or with several.
#[tokio::test]
async fn a_session_that_is_idle_is_silent_no_longer_than_its_margin_allows_for() {
    const T: Duration = Duration::from_secs(9);
    const PINGS: u32 = 4;
    let bed = Bed::shared("pings");
    let busy = bed.busy(&[]).await;
    let (alone, several, third) = (bed.proxy(), bed.proxy(), bed.proxy());
    let both = format!("{},{}", several.addr(), third.addr());
    let control = Control::timers();
    for addr in [&alone.addr(), &both] {
        let builder = bed.builder_at(addr).session_timeout(T);
        let session = bed.adopt(builder.connect().await.unwrap());
        assert_eq!(session.timing().unwrap().session_timeout, T);
        let allowed = allowed(&session);
        let ours = session.zookeeper_session().unwrap().id;
        let sent = || sent(&[&alone, &several, &third]).remove(&ours).unwrap_or_default();
        let pings = PINGS as usize;
        let all = sent().len() + pings;
        let sent = until("it pings", || Some(sent()).filter(|sent| sent.len() > all)).await;
        let last = &sent[sent.len() - pings - 1..];
        control.within("the longest silence", longest_silence(last), allowed);
        // What the machine is late with comes and goes: half of what a fifth is longer than a sixth.
        let mean = (last[pings] - last[0]) / PINGS;
        assert!(
            mean < allowed + T / 60,
            "silent for {mean:?} each time, {allowed:?} are allowed for"
        );
    }
    drop(busy);
    bed.end().await;
}

/// Each connection counts by itself: what goes by another is no sign of life.
#[tokio::test]
async fn no_connection_of_a_busy_session_is_silent_for_longer_than_its_margin_allows_for() {
    const T: Duration = Duration::from_secs(9);
    let bed = Bed::shared("busy-pings");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let control = Control::timers();
    let busy = bed.busy(&[&session]).await;
    tokio::time::sleep(T).await;
    // Whoever connects has no session yet.
    let of_each: Vec<_> = sent(&[&proxy]).into_iter().filter(|(id, _)| *id != 0).collect();
    assert!(of_each.len() > 1, "{of_each:?}");
    for (id, sent) in of_each {
        let what = format!("the longest silence of {id:#x}");
        control.within(&what, longest_silence(&sent), allowed(&session));
    }
    drop(busy);
    bed.end().await;
}

/// The servers that a session knows: proxies in front of one.
struct Known(Vec<Proxy>);

impl Known {
    fn new(bed: &Bed, count: usize) -> Self {
        Known((0..count).map(|_| bed.proxy()).collect())
    }

    fn addrs(&self) -> String {
        self.0.iter().map(Proxy::addr).collect::<Vec<_>>().join(",")
    }

    /// How many ZooKeeper sessions were opened.
    fn sessions(&self) -> usize {
        self.0.iter().map(|proxy| proxy.sessions().len()).sum()
    }

    /// What was sent to the server, and when.
    fn sent(&self) -> Vec<(OpCode, Instant)> {
        let logs = self.0.iter().flat_map(Proxy::log);
        let sent = logs.filter(|frame| frame.direction == Direction::ToServer);
        let mut sent: Vec<_> = sent.map(|frame| (frame.opcode, frame.at)).collect();
        sent.sort_by_key(|(_, at)| *at);
        sent
    }

    /// Answers nothing that keeps a session alive until the client has left the connection. Returns for how
    /// long it sent nothing before it came back, and for how long it had heard nothing.
    async fn silence(&self) -> (Duration, Duration) {
        let connects = |sent: &[(OpCode, Instant)]| {
            sent.iter().filter(|(opcode, _)| *opcode == OpCode::Connect).count()
        };
        let before = connects(&self.sent());
        let unanswered = |proxy: &Proxy| {
            let replies = [OpCode::Ping, OpCode::GetAcl].map(Matcher::reply);
            replies.map(|reply| proxy.on(reply, Action::Drop))
        };
        let rules: Vec<_> = self.0.iter().flat_map(unanswered).collect();
        let sent =
            until("it comes back", || Some(self.sent()).filter(|sent| connects(sent) > before));
        let sent = sent.await;
        rules.iter().for_each(Rule::release);
        let back = sent.iter().rposition(|(opcode, _)| *opcode == OpCode::Connect).unwrap();
        let [(last, left), (_, back)] = sent[back - 1..=back] else { panic!("{sent:?}") };
        assert!(last.keeps_alive(), "{last:?}");
        let logs = self.0.iter().flat_map(Proxy::log);
        let heard = logs.filter(|frame| {
            frame.direction == Direction::ToClient && !frame.was_dropped() && frame.at < back
        });
        (back - left, back - heard.map(|frame| frame.at).max().unwrap())
    }
}

/// The client sends no second ping while the first is not answered: what ends its silence is what the session
/// sends beside that, or that it leaves the connection.
#[tokio::test]
async fn a_session_whose_pings_are_not_answered_is_silent_no_longer_than_its_margin_allows_for() {
    Bed::measured("no-pongs", async |bed| {
        let busy = bed.busy(&[]).await;
        let mut late = Vec::new();
        // With several servers, those are left sooner if the timeout is 6 s or more: after a sixth, of
        // which an eighth of the timeout is left when it pings.
        let ms = Duration::from_millis;
        for (servers, seconds, part, leaves) in
            [(1, 12, 5, ms(3_200)), (2, 5, 5, ms(1_333)), (2, 12, 8, ms(2_000))]
        {
            let (known, t) = (Known::new(&bed, servers), Duration::from_secs(seconds));
            let builder = bed.builder_at(&known.addrs()).session_timeout(t);
            let session = bed.adopt(builder.connect().await.unwrap());
            assert_eq!((session.timing().unwrap().session_timeout, known.sessions()), (t, 1));
            let control = Control::timers();
            let (silent, unheard) = known.silence().await;
            late.extend(control.late("no answers to pings", silent, t / part, 0));
            // It looks each eighth of that time.
            late.extend(control.late("it leaves", unheard, leaves * 9 / 8, 0));
            until("it is connected", || session.is_ready().then_some(())).await;
        }
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// When it pings, and when it leaves a connection, depends on what was granted, not on what was asked for.
#[tokio::test]
async fn a_session_that_is_granted_another_timeout_is_silent_no_longer_than_that_allows_for() {
    const GRANTED: Duration = Duration::from_secs(6);
    measured(async |_| {
        let bed = Bed::own_with(|server| {
            server.min_session_timeout(GRANTED).max_session_timeout(GRANTED)
        });
        let busy = bed.busy(&[]).await;
        let mut late = Vec::new();
        for (servers, asked) in [(1, 13), (2, 20), (1, 1)] {
            let known = Known::new(&bed, servers);
            let builder =
                bed.builder_at(&known.addrs()).session_timeout(Duration::from_secs(asked));
            let session = bed.adopt(builder.connect().await.unwrap());
            assert_eq!(session.timing().unwrap().session_timeout, GRANTED);
            let what = format!("{servers} servers, {asked} s");
            // The session that asked for something else is closed.
            let id = session.zookeeper_session().unwrap().id;
            let is_ours =
                |id| known.0.iter().any(|one| one.sessions().iter().any(|key| key.id == id));
            until("the other session is closed", || {
                let open = bed.server().sessions();
                let mut ours = open.iter().map(|open| open.id).filter(|id| is_ours(*id));
                (ours.next() == Some(id) && ours.next().is_none()).then_some(())
            })
            .await;
            let control = Control::timers();
            // Some pings that are answered.
            let before = known.sent().len();
            let sent =
                until("it pings", || Some(known.sent()).filter(|sent| sent.len() > before + 3));
            let sent = sent.await;
            let pings = sent[sent.len() - 4..].windows(2).map(|pair| pair[1].1 - pair[0].1);
            late.extend(control.late(&what, pings.max().unwrap(), GRANTED / 5, 0));
            let (silent, unheard) = known.silence().await;
            late.extend(control.late(&what, silent, GRANTED / 5, 0));
            // Nor does it leave a server as soon as with what was asked for.
            assert!(asked > 1 || unheard > GRANTED / 15, "{what}: {unheard:?}");
            until("it is connected", || session.is_ready().then_some(())).await;
        }
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// Nothing of the caller's runs where ZooKeeper's answers and events arrive.
#[tokio::test(flavor = "current_thread")]
async fn a_caller_who_blocks_keeps_no_heartbeat_from_going_out() {
    let bed = Bed::shared("blocks");
    let session =
        bed.adopt(bed.builder().session_timeout(SESSION_TIMEOUT).connect().await.unwrap());
    // It has threads of its own.
    let busy = bed.busy(&[&session]).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    // As long as two sessions live in silence, on the only thread of the runtime.
    std::thread::sleep(2 * SESSION_TIMEOUT);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    drop(busy);
    bed.end().await;
}
