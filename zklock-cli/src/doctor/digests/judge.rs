//! What the counts of digest mismatches say.

use crate::doctor::Check;

/// What one server counted before this run wrote, and afterwards, in the same role under the same leader.
#[derive(Clone, Debug)]
pub(super) struct Counted<'s> {
    pub(super) server: &'s str,
    pub(super) role: String,
    pub(super) before: u64,
    pub(super) after: u64,
    /// How many servers of the ensemble vote.
    pub(super) voters: Option<usize>,
}

impl Counted<'_> {
    /// Who gives the digests. They are computed beforehand, so it may count as well.
    fn leads(&self) -> bool {
        ["leader", "standalone"].contains(&&*self.role)
    }

    fn votes(&self) -> bool {
        self.role != "observer"
    }

    fn grew(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// A server that differs counts each transaction, and this run makes more than one. A single one may
    /// be one that the leader itself counts a moment later.
    fn differs(&self) -> bool {
        self.grew() > 1
    }

    fn numbers(&self) -> String {
        format!("{} {}, then {}", self.server, self.before, self.after)
    }
}

fn list<'c>(counted: impl IntoIterator<Item = &'c Counted<'c>>) -> String {
    counted.into_iter().map(Counted::numbers).collect::<Vec<_>>().join("; ")
}

/// `silent` are those of which nothing is known. Data are to be removed only where the leader and a majority
/// say nothing against each other.
pub(super) fn judge(counted: &[Counted<'_>], silent: &[&str]) -> Vec<Check> {
    let leader = counted.iter().find(|one| one.leads());
    if let Some(leader) = leader.filter(|leader| leader.grew() > 0) {
        let says = format!(
            "{} leads, and counts digest mismatches in its own transactions: so these numbers tell nothing \
             of anybody's data ({})",
            leader.server,
            list(counted)
        );
        return vec![Check::unchecked("digests", says)];
    }
    let differ: Vec<_> = counted.iter().filter(|one| one.differs()).collect();
    let past: Vec<_> = counted.iter().filter(|one| one.after > 0 && !one.differs()).collect();
    let mut checks = Vec::new();
    match leader {
        _ if differ.is_empty() => {}
        None => checks.push(unknown(&differ, "their leader", silent)),
        Some(leader) => {
            let agree = counted.iter().filter(|one| one.votes() && one.grew() == 0).count();
            let voting = counted.iter().filter(|one| one.votes()).count() + silent.len();
            let voters = counted.iter().filter_map(|one| one.voters).max().unwrap_or(0).max(voting);
            if agree * 2 > voters {
                checks.extend(differ.iter().map(|one| alone(one, leader, agree, voters)));
            } else if silent.is_empty() && voters == voting {
                let all = differ.len() > 1 && differ.len() + 1 == counted.len();
                checks.push(undecided(&differ, leader.server, all));
            } else {
                checks.push(unknown(&differ, leader.server, silent));
            }
        }
    }
    if !past.is_empty() {
        let says = format!(
            "digest mismatches since the start of a server: {}. One whose data are not those of its leader \
             counts more with each write of this run: these are over, or of an earlier leader. To be sure, \
             call zklock doctor again later, and compare",
            list(past)
        );
        checks.push(Check::note("digests", says));
    }
    if checks.is_empty() {
        let all = counted.len() + silent.len();
        checks.push(match counted.len() {
            0 => Check::unchecked(
                "digests",
                "not checked: no server told its digest mismatches both before and after this run wrote, \
                 in one role",
            ),
            told => Check::well(
                "digests",
                format!("{told} of {all} servers tell, and count no digest mismatch"),
            ),
        });
    }
    checks
}

/// The leader and a majority count nothing.
fn alone(one: &Counted<'_>, leader: &Counted<'_>, agree: usize, voters: usize) -> Check {
    let (server, leader) = (one.server, leader.server);
    let says = format!(
        "{server} says that its data are not those of {leader}, its leader (digest mismatches before this \
         run, and after: {}; {agree} of {voters} voting servers count no more): who is connected to it may \
         wait for ever for a lock that is free",
        one.numbers()
    );
    let helps = format!(
        "leave {server} out of the connect strings of clients. One server at a time, and only if zklock \
         doctor, called again just before, still names it here and it does not lead: stop it, move version-2 \
         of its dataDir and dataLogDir to another place, and start it: it copies the data of its leader. \
         Keep what was moved, for a majority may have copied a mistake. A restart \
         alone only sets the number to 0"
    );
    Check::wrong("digests", says, helps)
}

/// All are known, and no majority is of the same mind as the leader.
fn undecided(differ: &[&Counted<'_>], leader: &str, all: bool) -> Check {
    let who = match differ.len() {
        1 => "one server says".to_owned(),
        _ if all => "all other servers say".to_owned(),
        some => format!("{some} servers say"),
    };
    let so = match all {
        true => format!("so rather the data of {leader} are wrong"),
        false => "nothing tells yet which data are right".to_owned(),
    };
    let says = format!(
        "{who} that the data are not those of {leader}, the leader (digest mismatches before this run, and \
         after: {}): {so}, and a free lock may look taken for ever",
        list(differ.iter().copied())
    );
    let helps = format!(
        "remove no data. Restart {leader}, so that another one leads, and call zklock doctor again: the \
         numbers of now stay, and those that grow then are of the servers that differ"
    );
    Check::wrong("digests", says, helps)
}

/// Not enough is known to say who is right.
fn unknown(differ: &[&Counted<'_>], leader: &str, silent: &[&str]) -> Check {
    let silent = match silent {
        [] => "servers that are not in the connect string".to_owned(),
        silent => silent.join(", "),
    };
    let says = format!(
        "data are not those of {leader}, as these servers say (digest mismatches before this run, and after: \
         {}), but nothing is known of {silent}: so nothing tells which data are right",
        list(differ.iter().copied())
    );
    let helps = "remove no data. Name all servers in ZKLOCK_CONNECT, allow mntr in \
                 4lw.commands.whitelist of each, and call zklock doctor again";
    Check::wrong("digests", says, helps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State::{self, Note, Unchecked, Well, Wrong};

    /// What is said of servers with their roles and their numbers before and after. One without numbers
    /// does not tell.
    fn judged(told: &[(&'static str, &str, &[u64])]) -> Vec<(State, String, String)> {
        let counted: Vec<_> = told
            .iter()
            .filter_map(|(server, role, numbers)| {
                let &[before, after] = *numbers else { return None };
                let role = (*role).to_owned();
                Some(Counted { server, role, before, after, voters: None })
            })
            .collect();
        let silent: Vec<_> = told.iter().filter(|one| one.2.is_empty()).map(|one| one.0).collect();
        of(&judge(&counted, &silent))
    }

    fn of(checks: &[Check]) -> Vec<(State, String, String)> {
        let parts = checks.iter().map(|one| {
            assert_eq!(one.code, "digests");
            (one.state, one.says.clone(), one.helps.clone().unwrap_or_default())
        });
        parts.collect()
    }

    /// Whether somebody is told to move data.
    fn moves(helps: &str) -> bool {
        helps.contains("version-2")
    }

    #[test]
    fn numbers_that_do_not_grow_accuse_nobody() {
        // What is left when x, which was wrong, was restarted, and b leads.
        let checks = judged(&[
            ("b", "leader", &[5, 5]),
            ("c", "follower", &[5, 5]),
            ("x", "follower", &[0, 0]),
        ]);
        let [(Note, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.contains("b 5, then 5; c 5, then 5") && helps.is_empty(), "{says}");
        // A single one may be the leader's doing.
        let checks = judged(&[("b", "leader", &[0, 0]), ("c", "follower", &[5, 6])]);
        let [(Note, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.contains("c 5, then 6") && helps.is_empty(), "{says}");
    }

    #[test]
    fn numbers_of_zero_are_well() {
        let checks =
            judged(&[("a", "leader", &[0, 0]), ("b", "follower", &[0, 0]), ("c", "", &[])]);
        let [(Well, says, _)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.starts_with("2 of 3 servers tell"), "{says}");
        let checks = judged(&[("a", "standalone", &[0, 0])]);
        assert!(matches!(&checks[..], [(Well, ..)]), "{checks:?}");
        // It told before, and was restarted.
        let checks = judged(&[("a", "", &[])]);
        assert!(matches!(&checks[..], [(Unchecked, ..)]), "{checks:?}");
    }

    #[test]
    fn a_follower_whose_number_grows_is_named_with_both_numbers() {
        // The one that was wrong was restarted, and the others still have their old numbers.
        let checks = judged(&[
            ("b", "leader", &[5, 5]),
            ("c", "follower", &[5, 5]),
            ("x", "follower", &[0, 4]),
        ]);
        let [(Wrong, says, helps), (Note, past, _)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.starts_with("x says that its data are not those of b,"), "{says}");
        assert!(says.contains("x 0, then 4; 2 of 3 voting servers"), "{says}");
        assert!(moves(helps) && helps.starts_with("leave x out"), "{helps}");
        assert!(past.contains("b 5, then 5; c 5, then 5."), "{past}");
    }

    #[test]
    fn no_data_are_moved_without_a_majority_that_agrees_with_the_leader() {
        let grows: &[u64] = &[0, 4];
        let same: &[u64] = &[0, 0];
        // Of two servers nothing tells which one is right, nor of three of which one is silent.
        let two = [("a", "leader", same), ("b", "follower", grows)];
        let silent = [two[0], two[1], ("c", "", &[][..])];
        // An observer has no vote.
        let observer = [two[0], two[1], ("c", "observer", same)];
        // Three of five differ.
        let three = [two[0], two[1], ("c", "follower", grows), ("d", "follower", grows)];
        let three = [&three[..], &[("e", "follower", same)]].concat();
        // Nobody leads, as far as is known.
        let headless = [("a", "", &[][..]), two[1], ("c", "follower", same)];
        for told in [&two[..], &silent, &observer, &three, &headless] {
            let checks = judged(told);
            let [(Wrong, says, helps)] = &checks[..] else { panic!("{checks:?}") };
            assert!(!moves(helps) && helps.starts_with("remove no data"), "{helps}");
            assert!(!says.contains("all other"), "{says}");
        }
        assert!(judged(&silent)[0].1.contains("nothing is known of c:"));
    }

    #[test]
    fn servers_that_are_not_in_the_connect_string_count() {
        let one = |server, role: &str, after| {
            let role = role.to_owned();
            Counted { server, role, before: 0, after, voters: Some(5) }
        };
        let checks = of(&judge(
            &[one("a", "leader", 0), one("b", "follower", 4), one("c", "follower", 0)],
            &[],
        ));
        let [(Wrong, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(
            says.contains("servers that are not in the connect string") && !moves(helps),
            "{checks:?}"
        );
    }

    #[test]
    fn a_leader_from_which_all_differ_is_named_if_all_tell() {
        let followers = [("b", "follower", &[2, 7][..]), ("c", "follower", &[0, 5])];
        let leader = ("a", "leader", &[0, 0][..]);
        let checks = judged(&[leader, followers[0], followers[1]]);
        let [(Wrong, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.starts_with("all other servers") && says.contains("the data of a are wrong"));
        assert!(says.contains("b 2, then 7; c 0, then 5"), "{says}");
        assert!(helps.contains("Restart a,") && !moves(helps), "{helps}");
        // Two of five do not tell.
        let checks = judged(&[leader, followers[0], followers[1], ("d", "", &[]), ("e", "", &[])]);
        let [(Wrong, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(
            !says.contains("all other") && says.contains("nothing is known of d, e:"),
            "{says}"
        );
        assert!(!helps.contains("Restart") && !moves(helps), "{helps}");
    }

    #[test]
    fn a_leader_that_counts_itself_makes_the_numbers_worthless() {
        let checks = judged(&[
            ("a", "leader", &[1, 2]),
            ("b", "follower", &[0, 4]),
            ("c", "follower", &[0, 0]),
        ]);
        let [(Unchecked, says, helps)] = &checks[..] else { panic!("{checks:?}") };
        assert!(says.contains("a 1, then 2; b 0, then 4") && helps.is_empty(), "{checks:?}");
    }
}
