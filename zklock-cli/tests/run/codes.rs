//! Exit codes, environment and arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock_test_support::{Control, ZooKeeper};

use crate::bed::{Bed, TWO, is_alive, through, until};

#[test]
fn the_commands_exit_code_passes_through() {
    let bed = Bed::new("codes");
    for code in [0, 1, 75, 255] {
        let script = format!("exit {code}");
        assert_eq!(bed.code(&["run", "a", "--", "sh", "-c", &script]), code);
    }
    assert_eq!(bed.code(&["run", "a", "--", "sh", "-c", "kill -USR1 $$"]), 128 + 10);
    // A real-time signal.
    assert_eq!(bed.code(&["run", "a", "--", "sh", "-c", "kill -34 $$"]), 128 + 34);
    let orphan = "(sh -c 'sleep 0.1; kill -34 $$' &); sleep 0.5; exit 5";
    assert_eq!(bed.code(&["run", "a", "--", "sh", "-c", orphan]), 5);
    assert_eq!(bed.nodes("a"), [""; 0]);
}

#[test]
fn the_command_gets_its_arguments_as_they_are_and_what_it_needs_to_know() {
    let bed = Bed::new("environment");
    let output = bed.output(&["run", "a/b", "--", "printf", "%s|", "two words", "$HOME", "--help"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "two words|$HOME|--help|");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let script = "echo $ZKLOCK_NAME $ZKLOCK_CONNECT; echo $ZKLOCK_TOKEN";
    let script = format!("{script}; exec {zklock} show $ZKLOCK_NAME --json");
    let mut tokens = Vec::new();
    for mode in ["mutex", "read", "write", "semaphore:3"] {
        let name = format!("a/{}", &mode[..4]);
        let output = bed.output(&["run", &name, "--mode", mode, "--", "sh", "-c", &script]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], format!("{name} {}", ZooKeeper::shared().addr()));
        // What a store compares: the czxid of the node that holds the lock, and the first grant on it.
        let shown: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
        let queues = shown["queues"].as_array().unwrap().iter();
        let own = queues.filter(|queue| queue["inner"] == false);
        let own = own.flat_map(|queue| queue["contenders"].as_array().unwrap());
        let holders: Vec<_> = own.filter(|one| one["holds"] == true).collect();
        assert_eq!(holders.len(), 1, "{shown}");
        let czxid = holders[0]["czxid"].as_str().unwrap().strip_prefix("0x").unwrap();
        assert_eq!(lines[1], format!("{czxid:0>16}-{:016x}", 0), "{mode}");
        tokens.push(lines[1].to_owned());
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// What the first lines of the guide say of `--timeout` and `--retries`.
#[test]
fn who_says_nothing_of_times_tries_twice_for_two_seconds_each() {
    let bed = Bed::new("defaults");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.pids("pids");
    let begins = Instant::now();
    assert!(bed.zklock(&["--version"]).output().unwrap().status.success());
    let (begins, control) = (begins.elapsed(), Control::of(ZooKeeper::shared()));
    for (settings, tries) in [
        (&[][..], Duration::from_secs(4)),
        (&[("ZKLOCK_TIMEOUT", "1s"), ("ZKLOCK_RETRIES", "1")], Duration::from_secs(1)),
    ] {
        let took = until("ZooKeeper answers", || {
            let mut command = bed.zklock(&["run", "a", "--", "touch", "ran"]);
            command.env_remove("ZKLOCK_TIMEOUT").env_remove("ZKLOCK_RETRIES");
            let start = Instant::now();
            let code = command.envs(settings.iter().copied()).output().unwrap().status.code();
            assert!(matches!(code, Some(75 | 69)), "{code:?}");
            (code == Some(75)).then_some(start.elapsed())
        });
        assert!(took >= tries, "{took:?}");
        // A third try would take two seconds more. It opens a session, makes a node, and deletes that at the end, when
        // it also closes the session.
        let promised = tries + Duration::from_secs(1) + begins;
        control.within_answers("both tries", took, promised, 4);
    }
    assert!(!bed.folder.join("ran").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn without_a_server_it_runs_under_a_lock_of_this_process() {
    let bed = Bed::new("embedded");
    let script = "sleep 0.2; echo $ZKLOCK_NAME${ZKLOCK_APP-}; exit 3";
    let output = bed.zklock_at("embedded", &["run", "a", "--", "sh", "-c", script]).output();
    let output = output.unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"a\n"[..]), "{output:?}");
    let warning = "zklock: warning: the lock is in the memory of this process (embedded): it excludes nobody else\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), warning);
}

#[test]
fn who_does_not_get_the_lock_says_why_and_runs_nothing() {
    let bed = Bed::new("busy");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", "echo > held; cat fifo"]);
    nix_fifo(&bed);
    let mut holder = holder.spawn().unwrap();
    bed.lines("held", 1);
    let again = ["run", "a", "--timeout", "5s", "--retries", "1", "--", "touch", "ran"];
    let output = bed.output(&again);
    assert_eq!(output.status.code(), Some(75));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("is being processed") && words.contains("sh on "), "{words}");
    let other = [&again[..2], &["--on-busy", "3"], &again[2..]].concat();
    assert_eq!(bed.code(&other), 3);
    let thrice = ["run", "a", "--timeout", "1s", "--retries", "3", "--", "touch", "ran"];
    let start = Instant::now();
    assert_eq!(bed.code(&thrice), 75);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    let reading = [&again[..2], &["--mode", "read"], &again[2..]].concat();
    assert_eq!(bed.code(&reading), 75);
    assert!(!bed.folder.join("ran").exists());
    std::fs::write(bed.folder.join("fifo"), "").unwrap();
    assert!(holder.wait().unwrap().success());
    assert_eq!(bed.code(&again), 0);
    assert!(bed.folder.join("ran").exists());
}

fn nix_fifo(bed: &Bed) {
    let made = std::process::Command::new("mkfifo").arg(bed.folder.join("fifo")).status();
    assert!(made.unwrap().success());
}

/// A command that runs in this mode until its file is gone.
fn running(bed: &Bed, mode: &str, file: &str) -> Child {
    let script = format!("echo > {file}; while [ -e {file} ]; do sleep 0.05; done");
    let child = bed.zklock(&["run", "a", "--mode", mode, "--", "sh", "-c", &script]).spawn();
    bed.lines(file, 1);
    child.unwrap()
}

fn end(bed: &Bed, file: &str, mut running: Child) {
    std::fs::remove_file(bed.folder.join(file)).unwrap();
    assert!(running.wait().unwrap().success());
}

/// The code of a command that waits for at most ten seconds.
fn beside(bed: &Bed, mode: &str) -> i32 {
    bed.code(&["run", "a", "--mode", mode, "--timeout", "5s", "--retries", "2", "--", "true"])
}

#[test]
fn as_many_run_as_the_semaphore_has_permits() {
    let (bed, mode) = (Bed::new("permits"), "semaphore:2");
    let [one, two] = ["one", "two"].map(|file| running(&bed, mode, file));
    assert_eq!(beside(&bed, mode), 75);
    end(&bed, "one", one);
    assert_eq!(beside(&bed, mode), 0);
    end(&bed, "two", two);
}

#[test]
fn readers_run_together_and_a_writer_beside_nobody() {
    let bed = Bed::new("modes");
    let [one, two] = ["one", "two"].map(|file| running(&bed, "read", file));
    assert_eq!(["read", "write"].map(|mode| beside(&bed, mode)), [0, 75]);
    end(&bed, "one", one);
    assert_eq!(beside(&bed, "write"), 75);
    end(&bed, "two", two);
    let writing = running(&bed, "write", "three");
    assert_eq!(["read", "write"].map(|mode| beside(&bed, mode)), [75, 75]);
    end(&bed, "three", writing);
}

#[test]
fn what_cannot_be_run_has_the_codes_of_env() {
    let bed = Bed::new("cannot");
    assert_eq!(bed.code(&["run", "a", "--", "./nothing-of-this-name"]), 127);
    std::fs::write(bed.folder.join("plain"), "no program").unwrap();
    assert_eq!(bed.code(&["run", "a", "--", "./plain"]), 126);
    for wrong in [
        &["run", "a"][..],
        &["run", "a", "--mode", "writer", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "a", "--timeout", "soon", "--", "true"],
        &["run", "a", "--timeout", "0s", "--", "true"],
        &["run", "a", "--retries", "0", "--", "true"],
        &["run", "a", "--hold-at-most", "0s", "--", "true"],
        &["top", "--interval", "0s"],
        &["fly"],
    ] {
        let output = bed.output(wrong);
        assert_eq!(output.status.code(), Some(125), "{wrong:?}: {output:?}");
        // In the words of the command, and not of the library.
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!words.is_empty() && !words.contains('`'), "{wrong:?}: {words}");
    }
    assert_eq!(bed.code(&["--help"]), 0);
    assert_eq!(bed.code(&["--version"]), 0);
}

/// What is there is in the memory of another process.
#[test]
fn who_looks_at_locks_needs_servers() {
    let bed = Bed::new("memory");
    for asks in [
        &["show", "a"][..],
        &["why", "a"],
        &["ls"],
        &["top", "--json"],
        &["doctor"],
        &["break", "a", "--node", "n", "--czxid", "0x1", "--yes"],
        &["watch", "a"],
        &["revoke", "a"],
    ] {
        let output = bed.zklock_at("embedded", asks).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{asks:?}: {words}");
        let says = "zklock: --connect: embedded is no server that can be asked; accepted are servers, for instance ";
        assert!(words.starts_with(says) && output.stdout.is_empty(), "{asks:?}: {words}");
    }
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let bed = Bed::new("unreachable");
    // An attempt to connect takes longer than the tries. On a busy machine nobody may say in a second why it fails.
    for timeout in [None, Some(("ZKLOCK_CONNECT_TIMEOUT", "500ms"))] {
        until("the reason why there is no answer", || {
            let run = ["run", "a", "--timeout", "1s", "--", "touch", "ran"];
            let mut command = bed.zklock_at("127.0.0.1:1", &run);
            let output = command.envs(timeout).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("{told}");
            assert_eq!(output.status.code(), Some(69), "{output:?}");
            assert!(told.starts_with("zklock: a: ZooKeeper "), "{told}");
            told.contains("127.0.0.1:1: Connection refused").then_some(())
        });
    }
    assert!(!bed.folder.join("ran").exists());
}

#[test]
fn doctor_ends_as_its_help_and_the_guide_say() {
    let bed = Bed::new("doctor-codes");
    let down = bed.zklock_at("127.0.0.1:1", &["doctor"]).output().unwrap();
    assert_eq!(down.status.code(), Some(1), "{down:?}");
    let wrong = bed.zklock(&["doctor"]).env("ZKLOCK_ACL", "creators").output().unwrap();
    assert_eq!(wrong.status.code(), Some(125), "{wrong:?}");
    for asks in [&["doctor", "--help"][..], &["man", "doctor"]] {
        let text = String::from_utf8(bed.output(asks).stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let says =
            "1 if something is, which is so also if no server answers; 125 for a wrong argument or";
        assert!(words.contains(says), "{text}");
    }
    let guide = include_str!("../../README.md");
    assert!(guide.contains("\n| 1 | something is; so it is also if no server answers |\n"));
}

#[test]
fn a_wrong_setting_is_called_as_it_was_given() {
    let bed = Bed::new("given");
    let ends = |option: Option<&str>, variable: Option<(&str, &str)>, asks: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zklock"));
        command.env("ZKLOCK_CONNECT", "127.0.0.1:1").current_dir(&bed.folder).envs(variable);
        let output = command.args(option).args(asks).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for asks in [&["ls"][..], &["run", "a", "--", "true"], &["why", "a"], &["doctor"]] {
        for (option, variable, wrong) in
            [("--root", "ZKLOCK_ROOT", "nope"), ("--connect", "ZKLOCK_CONNECT", "a:b:c")]
        {
            let told = ends(Some(&format!("{option}={wrong}")), None, asks);
            assert!(told.starts_with(&format!("zklock: {option}: ")), "{asks:?}: {told}");
            let told = ends(None, Some((variable, wrong)), asks);
            assert!(told.starts_with(&format!("zklock: {variable}: ")), "{asks:?}: {told}");
        }
    }
}

#[test]
fn a_label_that_is_too_long_is_cut_with_a_warning() {
    let bed = Bed::new("label");
    let [long, longest] = [90, 78].map(|bytes| "x".repeat(bytes));
    let warning =
        format!("zklock: warning: --label is longer than 78 bytes, and is cut to \"{longest}\"\n");
    let script = format!("exec {} show a --json", env!("CARGO_BIN_EXE_zklock"));
    for (label, warning) in [(&long, &*warning), (&longest, "")] {
        let output = bed.output(&["run", "a", "--label", label, "--", "sh", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), warning);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(shown["queues"][0]["contenders"][0]["label"], longest.as_str());
    }
}

#[test]
fn who_waits_for_the_lock_waits_for_a_server_that_starts_again() {
    let bed = Bed::new("starts");
    let server = ZooKeeper::start();
    server.kill();
    let run = ["run", "a", "--timeout", "100s", "--", "true"];
    let mut command = bed.zklock_at(&server.addr(), &run);
    let mut child = command.env("ZKLOCK_CONNECT_TIMEOUT", "100ms").spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none());
    server.restart();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_server_in_the_environment_it_says_what_to_set() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zklock"));
    let output = command.args(["show", "a"]).env_remove("ZKLOCK_CONNECT").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(words, "zklock: no servers are given: set ZKLOCK_CONNECT, or use --connect\n");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zklock"));
    let no_text = OsStr::from_bytes(b"zk\xff:2181");
    let output = command.args(["show", "a"]).env("ZKLOCK_CONNECT", no_text).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(words, "zklock: ZKLOCK_CONNECT: the value is not UTF-8\n");
}

#[test]
fn signals_reach_the_command_which_decides() {
    let bed = Bed::new("signals");
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ] {
        let file = format!("ready-{name}");
        let script = format!("trap 'exit 7' {name}; echo > {file}; while :; do sleep 0.05; done");
        // Who runs these tests may ignore some of them, which is inherited.
        let inner = bed.zklock(&["run", "a", "--", "sh", "-c", &script]);
        let mut child = through(&["env", "--default-signal"], &inner).spawn().unwrap();
        bed.lines(&file, 1);
        crate::bed::signal(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(7), "{name}");
        until("nothing is left", || bed.nodes("a").is_empty().then_some(()));
    }
}

#[test]
fn signals_that_are_ignored_from_outside_stay_ignored() {
    let bed = Bed::new("nohup");
    let script = "trap 'exit 6' USR1; echo > ready; while :; do sleep 0.05; done";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script]);
    let mut child = through(&["nohup"], &inner).spawn().unwrap();
    bed.lines("ready", 1);
    // In this order they would be handed on.
    crate::bed::signal(&child, Signal::SIGHUP);
    crate::bed::signal(&child, Signal::SIGUSR1);
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// SIGTERM is ignored from the beginning, however late the command begins.
#[test]
fn a_command_that_does_not_hear_of_its_time_is_killed_ten_seconds_later() {
    let bed = Bed::new("deaf");
    let inner = bed.zklock(&["run", "a", "--hold-at-most", "1s", "--", "sh", "-c", TWO]);
    let start = Instant::now();
    let mut child = through(&["env", "--ignore-signal=TERM"], &inner).spawn().unwrap();
    let pids = bed.pids("pids");
    let began = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    let (took, ran) = (start.elapsed(), began.elapsed());
    // A second that the lock is held, and ten to end; what is more is the machine's.
    assert!(took >= Duration::from_secs(11) && ran < Duration::from_secs(11 + 30), "{ran:?}");
    assert!(!pids.into_iter().any(is_alive));
    assert_eq!(bed.nodes("a"), [""; 0]);
}
