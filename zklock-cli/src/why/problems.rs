//! What is wrong with a lock, and what helps.

use std::collections::BTreeSet;
use std::time::Duration;

use zklock::{ContenderInfo, Owner};

use crate::ls::who;
use crate::server::{Again, auth, joined, line};
use crate::text::printable;
use crate::when::{span, until};
use crate::why::life::Life;
use crate::why::local::has_connection;
use crate::why::view::{Queue, View};

/// The session timeout of a holder of which no server tells it: the default of zklock and of kazoo.
pub(super) const USUAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The `tickTime` of a server, unless its `zoo.cfg` says another.
const USUAL_TICK: Duration = Duration::from_secs(2);

/// Something that keeps others from the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// A stable word, for programs.
    pub(crate) code: &'static str,
    /// What is wrong, in words.
    pub(crate) says: String,
    /// Commands that help, the gentlest first.
    pub(crate) helps: Vec<String>,
    /// Whether it is no fault, but how locks work: somebody holds it.
    pub(crate) is_normal: bool,
}

/// So many times as long is advised where the time was too short.
const LONGER: u32 = 10;

/// What is known about a lock.
pub(crate) struct Facts<'a> {
    pub(crate) name: &'a str,
    /// How long the servers could take.
    pub(crate) within: Duration,
    /// How `zklock` is called again.
    pub(crate) again: &'a Again,
    pub(crate) views: &'a [View],
    /// What the first server says that answers.
    pub(crate) queues: &'a [Queue],
    /// That server.
    pub(crate) server: &'a str,
}

impl Facts<'_> {
    /// A command about this lock, with its options.
    fn command(&self, verb: &str, options: &[&str]) -> String {
        // Among the options, a name such as -5 would be one.
        let words = match self.name.starts_with('-') {
            true => [&[verb], options, &["--", self.name]].concat(),
            false => [&[verb, self.name], options].concat(),
        };
        self.again.command(&words)
    }

    /// The command that deletes the node of a contender.
    pub(crate) fn breaks(&self, one: &ContenderInfo) -> String {
        let (czxid, whole) = (format!("{:#x}", one.czxid), format!("--node={}", one.node));
        // Apart, it would look like another option.
        let node = match one.node.starts_with('-') {
            true => &[&*whole][..],
            false => &["--node", &one.node],
        };
        self.command("break", &[node, &["--czxid", &czxid]].concat())
    }

    /// The command that asks the holders to release the lock, unless each of them has been asked.
    pub(super) fn revokes(&self) -> Option<String> {
        let mut holders = self.queues.iter().flat_map(Queue::holders);
        let is_new = holders.any(|one| !one.owner.revoked);
        is_new.then(|| self.command("revoke", &[]))
    }

    /// How many nodes stand behind those that were read.
    fn unread(&self) -> usize {
        self.queues.iter().map(|queue| queue.survey.unread.len()).sum()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiters().count()).sum()
    }

    /// Everything that is wrong: what is broad first, for it may be the cause of what follows.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = self.of_servers();
        for queue in self.queues {
            problems.extend(self.of_directory(queue));
        }
        problems.extend(self.of_kinds());
        let holders = || self.queues.iter().flat_map(Queue::holders);
        problems.extend(holders().flat_map(|one| self.of_holder(one)));
        for queue in self.queues {
            problems.extend(self.of_waiters(queue));
        }
        if problems.is_empty() && self.waiters() > 0 {
            problems.extend(self.only_held().or_else(|| self.only_next()));
        }
        problems.extend(self.of_unread());
        problems
    }

    /// Servers that do not answer, or whose data differ from their leader's.
    fn of_servers(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for view in self.views {
            let server = &view.server;
            let others: Vec<_> =
                self.views.iter().filter(|other| other.server != *server).collect();
            let others: Vec<_> = others.iter().map(|other| &*other.server).collect();
            let queues = match &view.queues {
                Ok(queues) => queues,
                Err(why) => {
                    let says = format!("The server {server} does not serve: {}.", why.message);
                    problems.push(Problem::new("server", says, Vec::new()));
                    continue;
                }
            };
            for phantom in queues.iter().filter_map(|queue| queue.survey.phantom.as_deref()) {
                let says = format!(
                    "The server {server} shows {phantom}, which its leader does not know: its data \
                     differ from the leader's. Whoever waits for that node there waits for ever, and \
                     nothing that is sent to ZooKeeper removes it. Which of the two is right is not \
                     known here: call `zklock doctor` first, and touch the data of a server only as \
                     that says."
                );
                let (mut says, mut helps) = (says, vec![self.again.command(&["doctor"])]);
                if !others.is_empty() {
                    let waiting = self.waiting_at(server, queues);
                    says += &format!(
                        " If it names {server}, the lock is freed by hand: end who waits there{}, and \
                         start it anew with the other servers. Clients of zklock that know other \
                         servers leave that one by themselves.",
                        named(&waiting)
                    );
                    if queues.iter().any(|queue| !queue.survey.unread.is_empty()) {
                        says += " Not all who wait there are known: the time was too short for the queue.";
                    }
                    helps.extend(self.ends(&waiting));
                    let servers = format!("ZKLOCK_CONNECT={}", joined(&others));
                    helps.push(line(&["export", &servers]));
                }
                problems.push(Problem::new("differs", says, helps));
            }
        }
        problems
    }

    /// Those who wait in the queues that a server shows with a connection to this server, where it tells.
    fn waiting_at<'q>(&self, server: &str, queues: &'q [Queue]) -> Vec<&'q ContenderInfo> {
        let is_there = |one: &&ContenderInfo| match Life::of(one, self.views) {
            Life::Connected { server: of, .. } => of == server,
            _ => false,
        };
        queues.iter().flat_map(Queue::waiters).filter(is_there).collect()
    }

    /// The command that ends those of them who run on this machine, for certain.
    fn ends(&self, waiting: &[&ContenderInfo]) -> Option<String> {
        let here = Owner::here(None).host;
        let local = waiting.iter().filter(|one| one.owner.host == here);
        let process = |one: &&ContenderInfo| {
            let Life::Connected { from, .. } = Life::of(one, self.views) else { return None };
            one.owner.pid.filter(|process| has_connection(*process, &from))
        };
        let processes: BTreeSet<_> = local.filter_map(process).collect();
        let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
        (!processes.is_empty()).then(|| format!("kill {}", processes.join(" ")))
    }

    /// Whether the servers do not tell if the process behind a node lives.
    pub(crate) fn is_untold(&self, one: &ContenderInfo) -> bool {
        Life::of(one, self.views).is_untold()
    }

    /// A holder that cannot release, or does not listen.
    fn of_holder(&self, one: &ContenderInfo) -> Vec<Problem> {
        if self.queues.iter().any(|queue| queue.is_phantom(one)) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        let who = who(one);
        let breaks = || vec![self.breaks(one)];
        let life = Life::of(one, self.views);
        let mut add = |code, says, helps| problems.push(Problem::new(code, says, helps));
        match &life {
            Life::Stays => add(
                "stays",
                format!(
                    "The node of the holder ({who}) belongs to no session (it is not ephemeral), so \
                     it stays even if its process is long gone: only its process or an operator \
                     removes it."
                ),
                breaks(),
            ),
            Life::Connected { server, timeout, heard, at_least, .. } if life.is_silent(one) => {
                let least = if *at_least { "at least " } else { "" };
                let left = span(timeout.saturating_sub(*heard));
                add(
                    "silent",
                    format!(
                        "The holder ({who}) is silent: {server} last heard of it {least}{} ago, \
                         although it keeps a connection. Its process is stopped, its machine hangs, \
                         or the network is cut. If nothing is heard for {}, its session ends, and \
                         the lock is free: in about {left}.",
                        span(*heard),
                        span(*timeout)
                    ),
                    breaks(),
                );
            }
            Life::Alone => add(
                "gone",
                format!(
                    "The holder ({who}) has no connection to any of the servers: its process has \
                     ended, or is cut off. Waiting helps: its session ends, and the lock is free, \
                     after its session timeout and two ticks of the servers at most, which is {} \
                     unless the settings are others.",
                    span(USUAL_TIMEOUT + 2 * USUAL_TICK)
                ),
                breaks(),
            ),
            _ => {}
        }
        problems.extend(self.of_asked(one));
        problems
    }

    /// Nothing is wrong but that somebody holds the lock.
    fn only_held(&self) -> Option<Problem> {
        let mut holders = self.queues.iter().flat_map(Queue::holders);
        let first = holders.next()?;
        let works = match Life::of(first, self.views) {
            // A connection is kept for as long as the session lasts.
            Life::Connected { server, heard, at_least: true, .. } => format!(
                "It is at work, hangs or is gone, which is not known: {server} has its connection, and last heard of it \
                 at least {} ago",
                span(heard)
            ),
            Life::Connected { .. } => {
                "Its process lives, as far as ZooKeeper knows: it is at work, or hangs for another reason"
                    .to_owned()
            }
            Life::Unknown { .. } => {
                "It is at work, hangs or is gone, which the servers do not tell (`zklock doctor` says why)"
                    .to_owned()
            }
            Life::Unasked { why } => {
                format!("It is at work, hangs or is gone, which is not known: {why}")
            }
            _ => "It is at work, or hangs for another reason".to_owned(),
        };
        let others = match self.waiters() {
            1 if self.unread() > 0 => "at least one other waits".to_owned(),
            several if self.unread() > 0 => format!("at least {several} others wait"),
            1 => "another one waits".to_owned(),
            several => format!("{several} others wait"),
        };
        let known =
            if self.is_untold(first) || self.unread() > 0 { ", as far as it is known" } else { "" };
        let mut says = format!(
            "Nothing is wrong in ZooKeeper{known}: {others} for {}. {works}; look at the process \
             itself.",
            who(first)
        );
        if let Some((path, who)) = self.queues.iter().find_map(Queue::only_deletes) {
            // Nothing in ZooKeeper tells the credentials of a holder.
            says += &format!(
                " Only {who} may delete nodes in {path}: a holder with other credentials cannot release \
                 the lock, and its log says so."
            );
        }
        if let Some((asked, ago)) = self.just_asked() {
            let it = if asked.node == first.node { "It".to_owned() } else { who(asked) };
            says += &format!(" {it} was asked to release the lock {ago} ago, and may yet do so.");
        }
        let helps = self.revokes().into_iter().chain([self.breaks(first)]).collect();
        Some(Problem { is_normal: true, ..Problem::new("held", says, helps) })
    }

    /// A queue that is too long for the time.
    fn of_unread(&self) -> Option<Problem> {
        let unread = self.unread();
        let says = format!(
            "The time was too short for the whole queue: {unread} more of its nodes were not read. What \
             `zklock why` says of holders, of who waits and of their number is said of those before them."
        );
        let longer = humantime::format_duration(self.within * LONGER).to_string();
        let longer = self.command("why", &["--within", &longer]);
        let problem = Problem { is_normal: true, ..Problem::new("unread", says, vec![longer]) };
        (unread > 0).then_some(problem)
    }

    /// Nobody holds the lock, and somebody waits: for a moment before the first one gets it, that is normal.
    fn only_next(&self) -> Option<Problem> {
        if self.rests().is_some() {
            return None;
        }
        let first = self.queues.iter().flat_map(Queue::waiters).next()?;
        let says = format!(
            "Nobody holds it, and the first one who waits, {}, should get it at this moment. Ask again: if \
             nobody holds it then either, that process hangs; look at it, or end it.",
            who(first)
        );
        let again = self.command("why", &[]);
        Some(Problem { is_normal: true, ..Problem::new("next", says, vec![again]) })
    }

    /// A command of ZooKeeper's own client.
    pub(super) fn zk_cli(&self, words: &[&str]) -> String {
        line(["zkCli.sh", "-server", self.server].iter().chain(words))
    }

    /// What is to be known before a command of ZooKeeper's own client is called: it does not read `ZKLOCK_AUTH`, and
    /// has no option for credentials. Never the password.
    pub(super) fn credentials(&self) -> String {
        let Some(auth) = auth() else { return String::new() };
        let mut words = auth.splitn(3, ':');
        let (scheme, user) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        printable(&format!(
            " zkCli.sh knows no credentials: call it with only `-server {}`, enter `addauth {scheme} \
             {user}:PASSWORD`, and then the rest of the command.",
            self.server
        ))
    }

    /// How long the lock is unavailable although nobody holds it.
    pub(crate) fn rests(&self) -> Option<Duration> {
        let until =
            self.queues.iter().filter_map(|queue| until(queue.survey.unavailable_until?)).max();
        until.max(self.delay())
    }

    /// How long who comes next has to wait, because the holder was lost.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.queues.iter().filter_map(|queue| queue.survey.lock_delay).max()
    }
}

/// Those who wait, in brackets.
fn named(waiting: &[&ContenderInfo]) -> String {
    match waiting {
        [] => String::new(),
        [first] => format!(" ({})", who(first)),
        [first, more @ ..] => format!(" ({} and {} more)", who(first), more.len()),
    }
}

impl Problem {
    pub(super) fn new(code: &'static str, says: String, helps: Vec<String>) -> Self {
        Problem { code, says, helps, is_normal: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use crate::why::example::{facts, queue, view};
    use crate::words::Connection;
    use zklock::Survey;

    /// What a server says, and which node it shows that its leader does not know.
    fn shows(server: &str, phantom: Option<&str>) -> View {
        let mut survey = Survey::default();
        survey.phantom = phantom.map(str::to_owned);
        view(server, queue(survey), Ok(Vec::new()))
    }

    /// Of the two, the leader may be the one that is wrong: then the good data are those of the other.
    #[test]
    fn what_a_server_shows_alone_is_left_to_doctor() {
        let views = [shows("x:1", Some("/a/n")), shows("y:2", None)];
        let problems = facts(&views, &[], "y:2").problems();
        let [one] = &problems[..] else { panic!("{problems:?}") };
        assert!(one.says.starts_with("The server x:1 shows /a/n, "), "{}", one.says);
        assert!(
            one.says.contains("`zklock doctor`") && !one.says.contains("empty"),
            "{}",
            one.says
        );
        assert_eq!((one.code, one.is_normal), ("differs", false));
        assert_eq!(one.helps, ["zklock doctor", "export ZKLOCK_CONNECT=y:2"]);
    }

    #[test]
    fn the_servers_that_do_not_differ_are_advised_with_their_chroot() {
        let views =
            [shows("x:1/app", Some("/a/n")), shows("y:2/app", None), shows("z:3/app", None)];
        let problems = facts(&views, &[], "y:2/app").problems();
        assert_eq!(problems[0].helps[1], "export ZKLOCK_CONNECT=y:2,z:3/app");
    }

    /// Another server of the same name may have answered the own session.
    #[tokio::test]
    async fn a_holder_whose_silence_nobody_measures_is_not_said_to_live() {
        let session = zklock::Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut survey = session.site("a").unwrap().survey().await.unwrap();
        survey.queue[0].zookeeper_session = 7;
        let told = [1, 7].map(|session| {
            let (from, timeout) = ("b:1".to_owned(), Duration::from_secs(6));
            Connection { session, from, timeout, answered: 5 }
        });
        let queue = || queue(survey.clone());
        for (own, lives) in [(Some(1), true), (None, false)] {
            let views = [View { own, ..view("x:1", queue(), Ok(told.to_vec())) }];
            let queues = [queue()];
            let facts = facts(&views, &queues, "x:1");
            let held = facts.only_held().unwrap();
            assert_eq!(held.says.contains("Its process lives"), lives, "{}", held.says);
            assert_eq!(facts.is_untold(&survey.queue[0]), !lives);
        }
    }

    /// A container may be called as this machine, and number its processes by itself.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_who_is_certainly_a_process_of_this_machine_is_to_be_killed() {
        let session = zklock::Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        (one.holds, one.zookeeper_session) = (false, 7);
        let (own, listener) =
            (std::process::id(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let there = stream.local_addr().unwrap();
        let connection = |from: String| Connection {
            session: 7,
            from,
            timeout: Duration::from_secs(6),
            answered: 5,
        };
        let here = one.owner.host.clone();
        for (host, process, from, is_local) in [
            (&*here, own, there.to_string(), true),
            (&here, u32::MAX, there.to_string(), false),
            (&here, 1, there.to_string(), false),
            (&here, own, "10.0.0.7:0".to_owned(), false),
            ("db7", own, there.to_string(), false),
        ] {
            (one.owner.host, one.owner.pid) = (host.to_owned(), Some(process));
            let views = [view("x:1", queue(Survey::default()), Ok(vec![connection(from)]))];
            let ends = facts(&views, &[], "x:1").ends(&[&one]);
            let kill = is_local.then(|| format!("kill {own}"));
            assert_eq!(ends, kill, "{host} {process}");
        }
    }

    /// Such a node has no host in its name.
    #[tokio::test]
    async fn the_command_that_breaks_is_accepted_whatever_the_lock_and_the_node_are_called() {
        use clap::Parser;
        let session = zklock::Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        for (node, printed) in
            [("-W-0000000003", "--node=-W-0000000003"), ("x-W-0000000003", "--node x-W-0000000003")]
        {
            one.node = node.to_owned();
            for name in ["a", "-5", "--yes"] {
                let command = Facts { name, ..facts(&[], &[], "y:2") }.breaks(&one);
                assert!(command.contains(printed), "{command}");
                let apart = command.replace("--node=", "--node ");
                for typed in [command, apart] {
                    let read = Args::try_parse_from(typed.split(' '));
                    let Ok(Args { command: Command::Break(read), .. }) = read else {
                        panic!("{typed}: {read:?}")
                    };
                    assert_eq!((&*read.name, &*read.node), (name, node));
                }
            }
        }
    }
}
