//! The example of a layout of one's own.

use crate::built::example;

#[test]
fn a_ticket_is_served() {
    let output = example("driver").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("/zklock/bakery/ticket-"), "{said}");
    assert!(said.ends_with("-0000000000 is served\n"), "{said}");
}
