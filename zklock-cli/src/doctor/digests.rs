//! Whether the data of the servers are those of their leader.

use std::time::Duration;

use tokio::time::timeout;

use crate::doctor::Check;
use crate::words::{self, Digests};

/// Nothing is said of servers that do not tell.
pub(super) async fn digests(servers: &[String], within: Duration) -> Vec<Check> {
    let mut told = Vec::new();
    for server in servers {
        let host = server.split('/').next().unwrap_or_default();
        let digests = timeout(within, words::digests(host)).await.ok().flatten();
        told.extend(digests.map(|digests| (&**server, digests)));
    }
    judge(&told)
}

fn judge(told: &[(&str, Digests)]) -> Vec<Check> {
    let differ: Vec<_> = told.iter().filter(|(_, one)| one.mismatches > 0).collect();
    let leader = told.iter().find(|(_, one)| one.leads).map(|(server, _)| *server);
    let others = || told.iter().filter(|(_, one)| !one.leads);
    match (told.len(), leader) {
        (0, _) => Vec::new(),
        (all, _) if differ.is_empty() => {
            let says = match all {
                1 => "one server tells, and counts no digest mismatch".to_owned(),
                all => format!("{all} servers tell, and count no digest mismatch"),
            };
            vec![Check::well("digests", says)]
        }
        (_, Some(leader))
            if others().count() > 1 && others().all(|(_, one)| one.mismatches > 0) =>
        {
            let counts: Vec<_> = others()
                .map(|(server, one)| format!("{server} in {}", transactions(one.mismatches)))
                .collect();
            let says = format!(
                "all other servers say that their data are not those of {leader}, their leader \
                 (digest mismatch: {}): so rather the data of {leader} are wrong, and a free lock may \
                 look taken for ever",
                counts.join(", ")
            );
            let helps = format!(
                "restart {leader}, so that another one leads, and call this twice: the server whose \
                 number grows is to be rebuilt (stop it, empty its dataDir and dataLogDir except for \
                 myid, start it)"
            );
            vec![Check::wrong("digests", says, helps)]
        }
        _ => differ.into_iter().map(|(server, one)| differs(server, one.mismatches)).collect(),
    }
}

fn differs(server: &str, mismatches: u64) -> Check {
    let says = format!(
        "{server} says that its data are not those of its leader (digest mismatch in {} since it was \
         started): who is connected to it may wait for ever for a lock that is free",
        transactions(mismatches)
    );
    let helps = format!(
        "leave {server} out of the connect strings, stop it, empty its dataDir and dataLogDir except \
         for myid, and start it: it copies the data of its leader. A restart alone only sets the \
         number to 0"
    );
    Check::wrong("digests", says, helps)
}

fn transactions(count: u64) -> String {
    match count {
        1 => "1 transaction".to_owned(),
        count => format!("{count} transactions"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn judged(told: &[(&str, bool, u64)]) -> Vec<Check> {
        let told: Vec<_> = told
            .iter()
            .map(|&(server, leads, mismatches)| (server, Digests { leads, mismatches }))
            .collect();
        judge(&told)
    }

    #[test]
    fn servers_that_do_not_tell_are_passed_over() {
        assert!(judged(&[]).is_empty());
        assert_eq!(judged(&[("a:1", false, 0)])[0].state, State::Well);
    }

    #[test]
    fn each_server_that_differs_is_named() {
        let checks = judged(&[("a:1", true, 0), ("b:1", false, 2), ("c:1", false, 0)]);
        assert!(checks.len() == 1 && checks[0].says.starts_with("b:1 says"), "{checks:?}");
        // Of two servers, nothing tells which one is right.
        let checks = judged(&[("a:1", true, 0), ("b:1", false, 2)]);
        assert!(checks.len() == 1 && checks[0].says.starts_with("b:1 says"), "{checks:?}");
    }

    #[test]
    fn a_leader_from_which_all_differ_is_named() {
        let checks = judged(&[("a:1", true, 0), ("b:1", false, 2), ("c:1", false, 1)]);
        assert!(checks.len() == 1 && checks[0].says.contains("the data of a:1 are wrong"));
        assert!(checks[0].says.contains("b:1 in 2 transactions, c:1 in 1 transaction"));
    }
}
