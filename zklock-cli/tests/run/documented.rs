//! Whether a document has the fields that `JSON.md` lists.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

type Tables = BTreeMap<String, BTreeMap<String, Field>>;

/// The type of a field, and the values that it may have where they are listed.
#[derive(Clone)]
struct Field {
    of: String,
    values: Vec<String>,
}

/// The fields of each table.
fn tables() -> Tables {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/JSON.md")).unwrap();
    let (mut tables, mut table) = (Tables::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut table);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (field, rest) = row.split_once("` | ").unwrap();
            let (of, says) = rest.strip_suffix(" |").unwrap().split_once(" |").unwrap();
            // Who lists values begins with one.
            let listed = says.trim_start().strip_prefix('`').unwrap_or_default();
            let values = listed.split('`').step_by(2).filter(|value| !value.is_empty());
            let field_of = Field { of: of.to_owned(), values: values.map(str::to_owned).collect() };
            tables.entry(table.clone()).or_default().insert(field.to_owned(), field_of);
        }
    }
    // One that is like another, and more.
    let more: Vec<_> = tables.keys().filter(|title| title.contains(" with ")).cloned().collect();
    for title in more {
        let plain = tables[title.split(" with ").next().unwrap()].clone();
        tables.get_mut(&title).unwrap().extend(plain);
    }
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
    for (name, Field { of, values }) in fields {
        let at = format!("{at}.{name}");
        match (object.get(name), of.strip_prefix("optional ")) {
            (Some(value), of_optional) => {
                check_in(tables, value, of_optional.unwrap_or(of), &at);
                let is_listed =
                    |text: &str| values.is_empty() || values.iter().any(|one| one == text);
                assert!(
                    value.as_str().is_none_or(is_listed),
                    "{at} is none of {values:?}: {value}"
                );
            }
            (None, optional) => assert!(optional.is_some(), "{at} is missing"),
        }
    }
}
