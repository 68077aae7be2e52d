//! Whether the margin of a lease has room for the ticks of the servers.
//!
//! A leader hears of the clients of its followers every half tick. A session that is not told the tick takes its
//! timeout for two of them: a server grants less only with a `minSessionTimeout` of its own.

use std::cmp::Ordering;
use std::time::Duration;

use crate::doctor::{Check, State, session};
use crate::server::over_tls;
use crate::words::{Settings, host, in_time, settings};

/// What a margin does that is too small.
const HARM: &str = "a guard may say that it is valid when its lock is another's";

/// What the servers told, and the settings of this client.
pub(super) struct Ticks<'s> {
    told: Vec<(&'s str, Settings)>,
    /// Why the others did not tell.
    silent: Vec<String>,
    /// The session timeout that is asked for.
    asked: Duration,
    /// The tick that a session is told.
    tick: Option<Duration>,
}

/// Asks each server, in their order.
pub(super) async fn ask(servers: &[String], within: Duration) -> Ticks<'_> {
    let (asked, tick) = (session::asked(), session::tick());
    let mut ticks = Ticks { told: Vec::new(), silent: Vec::new(), asked, tick };
    if over_tls() {
        return ticks;
    }
    for server in servers {
        match in_time(within, settings(host(server))).await {
            Ok(settings) => ticks.told.push((server, settings)),
            Err(why) => ticks.silent.push(format!("{server}: {why}")),
        }
    }
    ticks
}

impl Ticks<'_> {
    /// Compares them; `granted` is the session timeout of the session that was opened.
    pub(super) fn check(&self, granted: Option<Duration>) -> Check {
        if over_tls() {
            return Check::over_tls("tick");
        }
        match self.judge(granted) {
            // What is wrong of one server is wrong whatever the others would tell.
            Some(check) if check.state == State::Wrong || self.silent.is_empty() => check,
            _ if self.silent.is_empty() => {
                Check::unchecked("tick", "not known: all of them are observers, which never lead")
            }
            _ => Check::unchecked("tick", format!("not known: {}", self.silent.join("; "))),
        }
    }

    fn judge(&self, granted: Option<Duration>) -> Option<Check> {
        // The leader's tick counts, and each that votes may come to lead. Of equals, the first is named.
        let voters = self.told.iter().rev().filter(|(_, its)| !its.observes);
        let (slowest, its) = voters.max_by_key(|(_, its)| its.tick)?;
        let (tick, setting) = (its.tick, format!("{slowest} (tickTime={})", its.tick.as_millis()));
        let (shortest, granter) = self.shortest(granted)?;
        let helps = || self.helps(shortest, tick);
        Some(match self.tick {
            None if shortest < 2 * tick => {
                let says = format!(
                    "{granter} a session timeout of {}, which is less than two ticks of {setting}; it is taken \
                     for two without ZKLOCK_TICK_TIME: {HARM}",
                    seconds(shortest)
                );
                Check::wrong("tick", says, helps())
            }
            None => {
                let says =
                    format!("the session timeout is at least two ticks of {}", seconds(tick));
                Check::well("tick", says)
            }
            Some(told) => match told.cmp(&tick) {
                Ordering::Less => {
                    let says = format!(
                        "ZKLOCK_TICK_TIME is {}, which is less than the tick of {setting}: {HARM}",
                        seconds(told)
                    );
                    Check::wrong("tick", says, helps())
                }
                Ordering::Equal => Check::well(
                    "tick",
                    format!("no tick is longer than ZKLOCK_TICK_TIME, {}", seconds(told)),
                ),
                Ordering::Greater => {
                    let says = format!(
                        "ZKLOCK_TICK_TIME is {}, and no tick is longer than {}: leases are shorter than they \
                         need be, unless clients use observers behind an observerMasterPort",
                        seconds(told),
                        seconds(tick)
                    );
                    Check::note("tick", says)
                }
            },
        })
    }

    /// The shortest session timeout that this client gets, and who grants it. Each server grants what its own
    /// settings allow, so that the session which was opened may have got more than the next one.
    fn shortest(&self, granted: Option<Duration>) -> Option<(Duration, String)> {
        let all = self.told.iter().map(|(server, its)| {
            let least = its.shortest.as_millis();
            let granter = format!("{server} (minSessionTimeout={least}) grants");
            (self.asked.max(its.shortest).min(its.longest), granter)
        });
        let opened = granted.map(|granted| (granted, "a server grants".to_owned()));
        all.chain(opened).min_by_key(|(granted, _)| *granted)
    }

    /// What helps a session with this timeout, and the longest tick.
    fn helps(&self, shortest: Duration, tick: Duration) -> String {
        let (tick_time, two) = (tick.as_millis(), 2 * tick);
        let is_granted = self.told.iter().all(|(_, its)| its.longest >= two);
        let mut longer = Vec::new();
        if self.asked < two {
            longer.push(format!("ZKLOCK_SESSION_TIMEOUT={}ms", two.as_millis()));
        }
        if !is_granted || longer.is_empty() {
            longer.push(format!("maxSessionTimeout={} in zoo.cfg of each server", two.as_millis()));
        }
        let (told, longer) = (format!("ZKLOCK_TICK_TIME={tick_time}ms"), longer.join(" and "));
        // T/5 and half a tick are the margin, and a lease is at least T/3: otherwise no session is opened.
        let is_enough = shortest * 14 >= tick * 15;
        match (is_enough, self.tick) {
            (true, None) => format!("{told}, or {longer}"),
            (true, Some(_)) => told,
            (false, None) => longer,
            (false, Some(_)) => format!("{told} and {longer}"),
        }
    }
}

/// In seconds, exactly.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// What is said of servers with their tick, and the shortest and longest session timeout that they grant, to a
    /// client that asks for a session timeout and was told a tick.
    fn checked(told: &[(&'static str, [u64; 3])], asked: u64, tick: Option<u64>) -> Check {
        let told = told.iter().map(|(server, times)| {
            let [tick, shortest, longest] = times.map(millis);
            let observes = server.starts_with("observer");
            (*server, Settings { tick, shortest, longest, observes })
        });
        let (told, tick) = (told.collect(), tick.map(millis));
        Ticks { told, silent: Vec::new(), asked: millis(asked), tick }.check(None)
    }

    const USUAL: [u64; 3] = [2_000, 4_000, 40_000];
    const SHORT: [u64; 3] = [2_000, 500, 40_000];

    #[test]
    fn a_session_timeout_of_less_than_two_ticks_is_wrong_where_no_tick_is_told() {
        for (asked, tick, state) in [
            (3_999, None, State::Wrong),
            (4_000, None, State::Well),
            (3_000, Some(2_000), State::Well),
            (3_000, Some(1_999), State::Wrong),
            (3_000, Some(2_001), State::Note),
        ] {
            let check = checked(&[("a", SHORT)], asked, tick);
            assert_eq!(check.state, state, "{asked} {tick:?}: {check:?}");
        }
        // Who never leads has no say.
        let observer = ("observer", [9_000, 500, 40_000]);
        assert_eq!(checked(&[("a", USUAL), observer], 10_000, None).state, State::Well);
        assert_eq!(checked(&[observer], 10_000, None).state, State::Unchecked);
        // What it asks for is not granted.
        assert_eq!(checked(&[("a", USUAL)], 1_000, None).state, State::Well);
    }

    #[test]
    fn the_server_that_grants_least_and_the_one_with_the_longest_tick_are_named() {
        let says = |told: &[_]| checked(told, 3_000, None).says;
        let text = says(&[("a", USUAL), ("b", SHORT), ("c", [5_000, 10_000, 60_000])]);
        let begins = "b (minSessionTimeout=500) grants a session timeout of 3 s, which is less than two \
                      ticks of c (tickTime=5000);";
        assert!(text.starts_with(begins), "{text}");
        let text = says(&[("a", SHORT), ("b", SHORT)]);
        assert!(text.contains("a (minSessionTimeout=500)") && text.contains("a (tickTime=2000)"));
    }

    #[test]
    fn what_helps_opens_a_session() {
        let narrow = [2_000, 500, 3_000];
        for (server, asked, tick, helps) in [
            (SHORT, 3_000, None, "ZKLOCK_TICK_TIME=2000ms, or ZKLOCK_SESSION_TIMEOUT=4000ms"),
            (SHORT, 3_000, Some(1_000), "ZKLOCK_TICK_TIME=2000ms"),
            // No lease is safe with it.
            (SHORT, 2_142, None, "ZKLOCK_SESSION_TIMEOUT=4000ms"),
            (
                SHORT,
                2_142,
                Some(1_000),
                "ZKLOCK_TICK_TIME=2000ms and ZKLOCK_SESSION_TIMEOUT=4000ms",
            ),
            (
                narrow,
                10_000,
                None,
                "ZKLOCK_TICK_TIME=2000ms, or maxSessionTimeout=4000 in zoo.cfg of each server",
            ),
        ] {
            let check = checked(&[("a", server)], asked, tick);
            assert_eq!(check.helps.as_deref(), Some(helps), "{asked} {tick:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_tell_leaves_only_what_is_wrong() {
        let silent = || vec!["b: it does not answer in time".to_owned()];
        let checked = |told: &[(&'static str, Settings)], asked: u64, granted: Option<u64>| {
            let (told, asked) = (told.to_vec(), millis(asked));
            Ticks { told, silent: silent(), asked, tick: None }.check(granted.map(millis))
        };
        let [tick, shortest, longest] = SHORT.map(millis);
        let one = [("a", Settings { tick, shortest, longest, observes: false })];
        assert_eq!(checked(&one, 10_000, Some(10_000)).state, State::Unchecked);
        assert_eq!(checked(&one, 3_000, Some(4_000)).state, State::Wrong);
        let check = checked(&one, 10_000, Some(1_000));
        assert!(check.says.starts_with("a server grants a session timeout of 1 s"), "{check:?}");
        assert_eq!(checked(&[], 3_000, Some(3_000)).says, format!("not known: {}", silent()[0]));
    }
}
