//! What the commands print as JSON is what `JSON.md` says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::bed::{Bed, until};

type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// The fields of each table and their types.
fn tables() -> Tables {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/JSON.md")).unwrap();
    let (mut tables, mut table) = (Tables::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut table);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (field, rest) = row.split_once("` | ").unwrap();
            let of = rest.split(" | ").next().unwrap();
            tables.entry(table.clone()).or_default().insert(field.to_owned(), of.to_owned());
        }
    }
    let plain = tables["contender"].clone();
    tables.get_mut("contender with session").unwrap().extend(plain);
    tables
}

/// Fails if a value is not of its type.
pub(crate) fn check(value: &Value, of: &str, at: &str) {
    check_in(&tables(), value, of, at);
}

fn check_in(tables: &Tables, value: &Value, of: &str, at: &str) {
    if let Some(of) = of.strip_suffix(" or null") {
        if !value.is_null() {
            check_in(tables, value, of, at);
        }
    } else if let Some(of) = of.strip_prefix("list of ") {
        let list = value.as_array().unwrap_or_else(|| panic!("{at} is no list: {value}"));
        list.iter().for_each(|one| check_in(tables, one, of, at));
    } else {
        let right = match of {
            "string" => value.is_string(),
            "number" => value.is_u64(),
            "decimal" => value.is_f64(),
            "boolean" => value.is_boolean(),
            table => return check_fields(tables, value, table, at),
        };
        assert!(right, "{at} is no {of}: {value}");
    }
}

fn check_fields(tables: &Tables, value: &Value, table: &str, at: &str) {
    let fields = tables.get(table).unwrap_or_else(|| panic!("{table} is not documented"));
    let object = value.as_object().unwrap_or_else(|| panic!("{at} is no {table}: {value}"));
    for name in object.keys() {
        assert!(fields.contains_key(name), "{at}.{name} is not documented in {table}");
    }
    for (name, of) in fields {
        let at = format!("{at}.{name}");
        match (object.get(name), of.strip_prefix("optional ")) {
            (Some(value), of_optional) => check_in(tables, value, of_optional.unwrap_or(of), &at),
            (None, optional) => assert!(optional.is_some(), "{at} is missing"),
        }
    }
}

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
    assert_eq!(json(&["doctor", "--json"])["well"], true);
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
    assert_eq!(json(&breaks)["deleted"], true);
    assert_eq!(json(&breaks)["deleted"], false);
    assert!(waiter.wait().unwrap().success());
    assert_eq!(holder.wait().unwrap().code(), Some(124));
}
