//! What the commands print as JSON is what `JSON.md` says.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::bed::{Bed, until};
use crate::documented::check;

#[test]
fn what_is_printed_is_what_is_documented() {
    let bed = Bed::new("schema");
    let json = |arguments: &[&str]| -> Value {
        let printed = bed.output(arguments);
        let text = String::from_utf8(printed.stdout).unwrap();
        let value = serde_json::from_str(&text);
        let value: Value = value.unwrap_or_else(|_| panic!("{text} {:?}", printed.stderr));
        check(&value, arguments[0], arguments[0]);
        value
    };
    json(&["why", "a", "--json", "--within", "20s"]);
    json(&["ls", "--json"]);
    let fails = ["why", "a", "--json", "--within", "500ms"];
    let fails = bed.zklock_at("127.0.0.1:1", &fails).output().unwrap();
    assert_eq!(fails.status.code(), Some(69));
    assert!(fails.stdout.is_empty() && !fails.stderr.is_empty(), "{fails:?}");
    assert_eq!(json(&["doctor", "--json", "--within", "20s"])["well"], true);
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", crate::bed::TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let mut waiter = bed.zklock(&["run", "a", "--timeout", "60s", "--", "true"]).spawn().unwrap();
    until("it waits", || (bed.nodes("a").len() == 2).then_some(()));
    let why = json(&["why", "a", "--json", "--within", "20s"]);
    assert_eq!(why["holders"][0]["session"]["state"], "connected");
    assert_eq!(
        (&why["problems"][0]["code"], why["waiters"].as_array().unwrap().len()),
        (&"held".into(), 1)
    );
    assert_eq!(json(&["ls", "--json"])["locks"][0]["name"], "a");
    json(&["show", "a", "--json"]);
    for follows in ["top", "watch"] {
        let arguments =
            if follows == "top" { vec!["top", "--json"] } else { vec!["watch", "a", "--json"] };
        let mut following = bed.zklock(&arguments).spawn().unwrap();
        let line =
            BufReader::new(following.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        check(&serde_json::from_str(&line).unwrap(), follows, follows);
        following.kill().unwrap();
        following.wait().unwrap();
    }
    assert_eq!(json(&["revoke", "a", "--json"])["asked"], 1);
    let one = &why["holders"][0];
    let [node, czxid] = ["node", "czxid"].map(|field| one[field].as_str().unwrap());
    let breaks = ["break", "a", "--node", node, "--czxid", czxid, "--yes", "--json"];
    // It does not ask, and so it does nothing without a yes.
    let unsure: Vec<_> = breaks.into_iter().filter(|word| *word != "--yes").collect();
    let refused = bed.output(&unsure);
    assert!(refused.status.code() == Some(125) && refused.stdout.is_empty(), "{refused:?}");
    assert_eq!(bed.nodes("a").len(), 2);
    assert_eq!(json(&breaks)["deleted"], true);
    assert_eq!(json(&breaks)["deleted"], false);
    assert!(waiter.wait().unwrap().success());
    assert_eq!(holder.wait().unwrap().code(), Some(124));
}
