//! Where it runs: in a terminal, and as the first process of a container.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zklock_test_support::{Action, CreateMode, Matcher, OpCode, Proxy, ZooKeeper};

use crate::bed::{Bed, CURATORS, make, raw, skipped, through, until};

pub(crate) const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/terminal.py");

#[test]
fn in_a_terminal_the_command_has_the_keys_and_the_shell_gets_them_back() {
    let bed = Bed::new("terminal");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let run = format!("{zklock} run a -- sh -c 'echo now it reads; exec cat'\\n");
    let steps = [
        ("ready> ", run.as_str()),
        ("now it reads\r\n", "typed\\n"),
        // Once by the terminal, once by the command.
        ("typed\r\ntyped\r\n", "\\x1a"),
        ("^Z", "again\\n"),
        ("again\r\nagain\r\n", "\\x03"),
        ("ready> ", "echo code $?\\n"),
        ("code 130", "read line; echo shell $line\\n"),
        ("shell $line", "mine\\n"),
        ("shell mine", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

/// Types into a shell what belongs to each thing that is shown; returns all that is shown.
pub(crate) fn in_a_shell(bed: &Bed, steps: &[(&str, &str)]) -> String {
    let mut shell = Command::new("python3");
    shell.arg(TERMINAL).args(steps.iter().flat_map(|(wait, text)| [wait, text]));
    shell
        .env("ZKLOCK_CONNECT", ZooKeeper::shared().addr())
        .env("ZKLOCK_TIMEOUT", "60s")
        .env("ZKLOCK_ROOT", bed.path("").trim_end_matches('/'));
    let output = shell.current_dir(&bed.folder).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{shown}", String::from_utf8_lossy(&output.stderr));
    shown
}

/// As `less` does, which reads keys from the terminal while the command goes on.
#[test]
fn in_a_pipeline_the_other_commands_keep_the_terminal() {
    let bed = Bed::new("pipeline");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let reader = "sh -c 'read line; echo reads $line; read key < /dev/tty; echo has $key; cat'";
    let command = "sh -c 'echo begun; while ! [ -e end ]; do sleep 0.1; done; echo over'";
    let run = format!("{zklock} run a -- {command} | {reader}\\n");
    let steps = [
        ("ready> ", run.as_str()),
        ("reads begun", "typed\\n"),
        ("has typed", "\\x03"),
        ("ready> ", "echo code ${PIPESTATUS[0]}\\n"),
        ("code 130", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_uses_it() {
    let bed = Bed::new("uses");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let asks = "sh -c 'read line; echo piped $line; read key < /dev/tty; echo has $key'";
    let run = format!("echo first | {zklock} run a -- {asks} | cat\\n");
    let steps = [
        ("ready> ", run.as_str()),
        ("piped first", "typed\\n"),
        ("has typed", ""),
        ("ready> ", "read line; echo shell $line\\n"),
        ("shell $line", "mine\\n"),
        ("shell mine", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

#[test]
fn top_gives_the_terminal_back_when_a_signal_ends_it() {
    let bed = Bed::new("ended");
    let zklock = env!("CARGO_BIN_EXE_zklock");
    for (signal, code) in [("TERM", "code 143 icanon"), ("HUP", "code 129 icanon")] {
        // While it begins: as soon as the terminal is raw.
        let ends = format!(
            "(until [ -s pid ] && stty -a < /dev/tty | grep -q -e -icanon; do sleep 0.1; done; \
             kill -{signal} $(cat pid)) & sh -c 'echo $$ > pid; exec {zklock} top'\\n"
        );
        let shows = "echo code $? $(stty -a < /dev/tty | grep -o -e '-*icanon')\\n";
        let steps = [("ready> ", ends.as_str()), ("ready> ", shows), (code, "exit\\n")];
        let shown = in_a_shell(&bed, &steps);
        assert!(shown.rfind("\x1b[?1049h") < shown.rfind("\x1b[?1049l"), "{shown}");
        std::fs::remove_file(bed.folder.join("pid")).unwrap();
    }
}

#[test]
fn an_upgrade_while_it_waits_does_no_harm() {
    let bed = Bed::new("upgrade");
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    bed.lines("held", 1);
    let copy = bed.folder.join("copy");
    // Not by this process: what another test starts at this moment would keep it open for writing for a
    // while, and then it cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_zklock")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let waits = bed.zklock(&["run", "a", "--timeout", "60s", "--", "true"]);
    let mut waiter = Command::new(&copy).args(waits.get_args()).spawn().unwrap();
    until("both are in the queue", || (bed.nodes("a").len() == 2).then_some(()));
    std::fs::remove_file(copy).unwrap();
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success());
    assert_eq!(waiter.wait().unwrap().code(), Some(0));
}

/// A command that is the first process of a container: allowed to root, or to those who may be root in a
/// container of their own, and in some containers to nobody.
pub(crate) fn contained(inner: &Command) -> Option<Command> {
    let first = ["--pid", "--fork", "--mount-proc"];
    let ways = [first.to_vec(), [&["--user", "--map-root-user"], &first[..]].concat()];
    let can = |way: &&Vec<&str>| {
        let tried = Command::new("unshare").args(*way).arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(way) = ways.iter().find(can) else {
        skipped("no first process of a container: unshare refuses --pid, also with --user");
        return None;
    };
    Some(through(&[&["unshare"], &way[..]].concat(), inner))
}

#[test]
fn as_the_first_process_of_a_container_it_leaves_no_zombies() {
    let bed = Bed::new("first");
    // One that has just ended is a zombie until it is waited for.
    let script = "for i in 1 2 3 4 5; do (sleep 0.05 &); done; for i in $(seq 600); do sleep 0.1; \
                  cat /proc/[0-9]*/stat > states; grep -qE ' \\(sleep\\) ' states || break; done; \
                  exit 4";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script]);
    let Some(mut outer) = contained(&inner) else { return };
    assert_eq!(outer.status().unwrap().code(), Some(4));
    let states = std::fs::read_to_string(bed.folder.join("states")).unwrap();
    assert!(states.starts_with("1 (zklock) "), "{states}");
    assert!(!states.contains(") Z "), "{states}");
}

/// As in a folder that somebody has changed the root to: it has `/proc`, and not all links below `/dev`.
#[test]
fn a_container_needs_no_links_to_what_is_open() {
    let bed = Bed::new("no-links");
    // The program may be below /dev, in memory.
    let hides = "cp \"$1\" zklock && shift && touch null && mount --bind /dev/null null && \
                 mount -t tmpfs none /dev && touch /dev/null && mount --bind null /dev/null && \
                 ! [ -e /dev/fd ] && exec ./zklock \"$@\"";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", "exit 3"]);
    let Some(mut outer) = contained(&through(&["sh", "-c", hides, "sh"], &inner)) else { return };
    assert_eq!(outer.status().unwrap().code(), Some(3));
}

/// The kernel keeps from the first process what that does not handle.
#[test]
fn the_end_of_a_container_reaches_the_command() {
    let bed = Bed::new("stopped");
    let script = "trap 'exit 7' TERM; echo > ready; while :; do sleep 0.05; done";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script]);
    let Some(mut outer) = contained(&inner) else { return };
    let mut outer = outer.spawn().unwrap();
    bed.lines("ready", 1);
    let children = format!("/proc/{0}/task/{0}/children", outer.id());
    let first = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(first), Signal::SIGTERM).unwrap();
    assert_eq!(outer.wait().unwrap().code(), Some(7));
    assert_eq!(bed.nodes("a"), [""; 0]);
}

#[test]
fn top_heeds_keys_while_it_looks() {
    let bed = Bed::new("looks");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    proxy.on(Matcher::request(OpCode::GetChildren).or(OpCode::GetChildren2), Action::Hold);
    let (zklock, servers) = (env!("CARGO_BIN_EXE_zklock"), proxy.addr());
    let top = format!("ZKLOCK_TIMEOUT=10m {zklock} --connect {servers} top\\n");
    let steps = [
        ("ready> ", top.as_str()),
        ("hottest first", "w"),
        ("longest waited first", "q"),
        ("ready> ", "echo code $?\\n"),
        ("code 0", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

/// Where the first of the locks stands on the screen.
const FIRST: &str = "\x1b[5;1H";

/// Creates nodes in the queue of a lock until it is dropped. The last one always stays.
struct Hot(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Hot {
    fn at(directory: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (stop.clone(), raw());
        make(&mut client, &format!("{directory}/{CURATORS}"), b"10.0.0.7", CreateMode::Ephemeral);
        let thread = std::thread::spawn(move || {
            let (node, mut before) =
                (format!("{directory}/{}", CURATORS.trim_end_matches('0')), None);
            while !stopped.load(Ordering::Relaxed) {
                let made = client.create(&node, b"10.0.0.7", CreateMode::EphemeralSequential);
                if let Some(before) = before.replace(made.unwrap()) {
                    client.delete(&before).unwrap();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Hot(stop, Some(thread))
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        _ = self.1.take().map(JoinHandle::join);
    }
}

/// Each order has another lock on top, which is never the first by its name.
#[test]
fn the_keys_of_top_choose_the_order_on_the_screen() {
    let bed = Bed::new("keys");
    let mut client = raw();
    let second = CURATORS.replace("0000000000", "0000000001");
    for (lock, data) in [
        ("b-held", "10.0.0.7"),
        ("a-plain", "10.0.0.7"),
        ("c-waited", ""),
        ("d-asked", "__REVOKE__"),
    ] {
        let path = bed.path(&format!("{lock}/{CURATORS}"));
        make(&mut client, &path, data.as_bytes(), CreateMode::Ephemeral);
        // Times on the screen are by the millisecond, and sorted by it.
        std::thread::sleep(Duration::from_millis(20));
    }
    let waiter = bed.path(&format!("c-waited/{second}"));
    make(&mut client, &waiter, b"10.0.0.8", CreateMode::Ephemeral);
    let _hot = Hot::at(bed.path("e-hot"));
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let top = format!("{zklock} top --interval 100ms\\n");
    let on_top = ["  e-hot", "  b-held", "  c-waited", "! d-asked"];
    let [hot, held, waited, asked] = on_top.map(|row| format!("{FIRST}{row} "));
    let steps = [
        ("ready> ", top.as_str()),
        ("5 locks in use, ", ""),
        (&hot, "l"),
        ("; longest held first", ""),
        (&held, "w"),
        ("; longest waited first", ""),
        (&waited, "s"),
        ("; suspect first", ""),
        (&asked, "h"),
        ("; hottest first", ""),
        (&hot, "q"),
        ("ready> ", "echo code $?\\n"),
        ("code 0", "exit\\n"),
    ];
    let shown = in_a_shell(&bed, &steps);
    // With each order the same lock is always on top.
    let screens: Vec<_> = shown.split("\x1b[1;1H").collect();
    for (order, first) in
        [("longest held", &held), ("longest waited", &waited), ("suspect", &asked)]
    {
        let of_order = screens.iter().filter(|screen| screen.contains(&format!("; {order} first")));
        assert!(of_order.clone().all(|screen| screen.contains(first)), "{shown:?}");
    }
    client.close().unwrap();
}

#[test]
fn top_shows_the_locks_until_a_key_ends_it() {
    let bed = Bed::new("top");
    let run = ["run", "a/lock", "--label", "night 7", "--", "sh", "-c", crate::bed::TWO];
    let mut holder = bed.zklock(&run).spawn().unwrap();
    bed.lines("pids", 2);
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let top = format!("{zklock} top --interval 100ms\\n");
    let steps = [
        ("ready> ", top.as_str()),
        ("1 lock in use, 0 waiting, 0 suspect; hottest first", ""),
        ("a/lock ", ""),
        ("night 7", "l"),
        ("longest held first", "s"),
        ("suspect first", "q"),
        ("ready> ", "echo code $?\\n"),
        ("code 0", "exit\\n"),
    ];
    let shown = in_a_shell(&bed, &steps);
    // The terminal's own screen is left, and comes back.
    assert!(shown.contains("\x1b[?1049h") && shown.contains("\x1b[?1049l"), "{shown}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}
