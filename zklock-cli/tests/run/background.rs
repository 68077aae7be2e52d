//! Who is in the background of a terminal, and uses it.

use crate::bed::Bed;
use crate::places::in_a_shell;

/// Starts one in the background that reads, and goes on when it is stopped for that.
fn reads(zklock: &str, then: &str) -> String {
    let reads = format!("{zklock} run a -- sh -c 'echo $$ > pid; exec cat' &");
    format!(
        "{reads} until grep -qs 'State:.T' /proc/$(cat pid)/status; do sleep 0.1; done; {then}\\n"
    )
}

#[test]
fn it_goes_on_when_it_comes_to_the_foreground() {
    let bed = Bed::new("foreground");
    let run = reads(env!("CARGO_BIN_EXE_zklock"), "fg");
    let steps = [
        ("ready> ", run.as_str()),
        ("exec cat'\r\n", "typed\\n"),
        // Once by the terminal, once by the command.
        ("typed\r\ntyped\r\n", "\\x1a"),
        ("^Z", "again\\n"),
        ("again\r\nagain\r\n", "\\x04"),
        ("ready> ", "read line; echo code $? shell $line\\n"),
        ("shell $line", "mine\\n"),
        ("code 0 shell mine", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

/// As a shell takes the terminal when its job is stopped. Without it, an interactive shell ends.
#[test]
fn a_terminal_that_the_shell_has_taken_stays_the_shells() {
    let bed = Bed::new("taken");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let stops = "until [ -s held ]; do sleep 0.1; done; kill -STOP $(cat pid); sleep 0.5; kill -CONT $(cat pid)";
    let over =
        "while kill -0 $(cat pid); do sleep 0.1; done 2> /dev/null; sleep 0.5; echo it is o''ver";
    let command = "sh -c \"echo > held; sleep 2\"";
    let run =
        format!("({stops}; {over}) & sh -c 'echo $$ > pid; exec {zklock} run a -- {command}'\\n");
    // The shell reads meanwhile.
    let steps = [
        ("ready> ", run.as_str()),
        ("Stopped", ""),
        ("ready> ", ""),
        ("it is over", "echo still $((1 + 1))\\n"),
        ("still 2", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

#[test]
fn it_ends_with_a_signal_although_it_is_stopped() {
    let bed = Bed::new("ends-stopped");
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        let run = reads(env!("CARGO_BIN_EXE_zklock"), &format!("kill -{signal} %1; wait %1"));
        let code = format!("code {code}");
        let steps = [("ready> ", run.as_str()), ("ready> ", "echo code $?\\n"), (&code, "exit\\n")];
        in_a_shell(&bed, &steps);
        std::fs::remove_file(bed.folder.join("pid")).unwrap();
    }
}

/// `zklock` is in the background while its command has the terminal.
#[test]
fn what_is_told_stops_nobody_where_the_background_may_not_write() {
    let bed = Bed::new("tostop");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let script = "trap \"exit 5\" TERM; echo > begun; while :; do sleep 0.05; done";
    let asks = format!("(until [ -s begun ]; do sleep 0.1; done; {zklock} revoke a > asked) &");
    let run = format!("stty tostop; {asks} {zklock} run a --revocable -- sh -c '{script}'\\n");
    let steps = [
        ("ready> ", run.as_str()),
        ("zklock: somebody asks for the lock", ""),
        ("ready> ", "echo code $?\\n"),
        ("code 5", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}
