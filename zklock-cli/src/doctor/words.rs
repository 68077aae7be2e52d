//! Whether the servers tell what `zklock why` says of holders.

use std::time::Duration;

use crate::doctor::Check;
use crate::server::over_tls;
use crate::words::{host, in_time, refused};

/// What helps. A server without this line allows only `srvr`.
const HELPS: &str =
    "4lw.commands.whitelist=srvr,cons,mntr,conf in zoo.cfg of each server, and a restart of it";

/// What nobody can tell without a four-letter word.
fn without(word: &str) -> &'static str {
    match word {
        "cons" => "zklock why cannot say that a holder is silent or gone",
        "mntr" => "zklock doctor cannot say whether the data of a server are those of its leader",
        "conf" => {
            "zklock doctor cannot say whether the session timeout fits the servers' tickTime, nor \
             zklock why that a holder in an ensemble is gone"
        }
        _ => "zklock doctor cannot say whether a server has a quorum",
    }
}

/// Asks each server, in their order.
pub(super) async fn words(servers: &[String], within: Duration) -> Check {
    if over_tls() {
        return Check::over_tls("words");
    }
    let (mut refusals, mut missing) = (Vec::new(), Vec::new());
    for server in servers {
        match in_time(within, refused(host(server))).await {
            Ok(refused) if refused.is_empty() => {}
            Ok(refused) => {
                refusals.push(format!("{server} does not allow {}", refused.join(", ")));
                missing.extend(refused);
            }
            Err(why) => return Check::unchecked("words", format!("not known: {server}: {why}")),
        }
    }
    if missing.is_empty() {
        return Check::well("words", "the servers tell who is connected to them");
    }
    missing.sort_unstable();
    missing.dedup();
    let without: Vec<_> = missing.into_iter().map(without).collect();
    let says = format!("{}: {}", refusals.join("; "), without.join(", and "));
    Check { helps: Some(HELPS.to_owned()), ..Check::note("words", says) }
}
