//! What the guide shows is what the commands print, but for machines, processes, nodes and times.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use zklock_test_support::{CreateMode, RawClient, ZooKeeper};

use crate::bed::{BOUND, Bed, children, signal, until};
use crate::places::TERMINAL;

/// Each command that the guide shows, and what it prints there. The page and what it prints are another
/// test's, in `serve/breaks.rs`.
fn shown() -> Vec<(String, String)> {
    let guide = include_str!("../../README.md");
    let blocks =
        guide.split("```text\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let mut shown: Vec<(String, String)> = Vec::new();
    for block in blocks.filter(|block| block.starts_with("$ ")) {
        for line in block.lines() {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => shown.push((command.to_owned(), String::new())),
                (None, Some((_, prints))) => *prints += &format!("{line}\n"),
                (None, None) => unreachable!(),
            }
        }
    }
    shown.retain(|(command, _)| !command.contains("serve") && !command.starts_with("openssl"));
    shown
}

/// A text without what differs each time, nor how it is laid out.
fn masked(text: &str) -> String {
    // What is typed is not printed.
    let text = text.replace("[y/N] y\n", "[y/N] ");
    let words: Vec<_> = text.split_whitespace().collect();
    let is_number = |word: &str| {
        word.chars().all(|c| c.is_ascii_digit() || c == '.') && !word.is_empty() && word != "."
    };
    let mut masked: Vec<String> = Vec::new();
    let mut rest = words.iter().copied().peekable();
    while let Some(word) = rest.next() {
        let unit = rest.peek().copied().unwrap_or_default();
        let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let of_unit = unit.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let mask = if word.contains('.') && is_number(word) && unit.parse::<f64>().is_ok() {
            // A rate, in a column before a time.
            "RATE".to_owned()
        } else if is_number(word) && ["s", "min", "h", "days"].contains(&of_unit) {
            rest.next();
            // Of two units, one is left.
            if masked.last().is_some_and(|last| last == "TIME") {
                masked.pop();
            }
            format!("TIME{}", &unit[of_unit.len()..])
        } else if unit == "(process" {
            rest.next();
            rest.next();
            "HOST (process NUMBER)".to_owned()
        } else if humantime::parse_rfc3339(core).is_ok() {
            word.replace(core, "MOMENT")
        } else if core.starts_with("0x") && core.len() > 2 {
            word.replace(core, "HEX")
        } else if core.rsplit_once(':').is_some_and(|(_, port)| is_number(port)) {
            word.replace(core, "ADDRESS")
        } else if let Some(at) = word.find("_c_") {
            // The identifier, and the number at the end.
            let (number, kind) = (word.rfind(|c: char| c.is_ascii_digit()).unwrap() - 9, at + 39);
            format!("{}_c_ID{}NUMBER{}", &word[..at], &word[kind..number], &word[number + 10..])
        } else {
            word.to_owned()
        };
        masked.push(mask);
    }
    masked.join(" ")
}

/// A process that ends with the test, also where it is stopped.
struct User(Child);

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Servers, and the settings of those who use them.
struct Stage {
    bed: Bed,
    servers: String,
    root: &'static str,
    shown: Vec<(String, String)>,
}

impl Stage {
    /// A shell in which `zklock` is this one.
    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        let path = std::env::var("PATH").unwrap();
        shell.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(&self.bed.folder);
        shell.env("PATH", format!("{}:{path}", self.bed.folder.display()));
        shell.env("ZKLOCK_CONNECT", &self.servers).env("ZKLOCK_ROOT", self.root);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        shell
    }

    /// Starts a command that wants a lock, as an application, and waits until it has a node there.
    fn user(&self, app: &str, arguments: &str) -> User {
        let directory = format!("{}/{}", self.root, arguments.split(' ').next().unwrap());
        let inner = format!("{directory}/leases");
        let count = || {
            [&directory, &inner].into_iter().map(|path| children(&self.servers, path).len()).sum()
        };
        let before: usize = count();
        // What is stopped is silent after a third of it, and gone after all of it.
        let line = format!("exec zklock run {arguments}");
        let mut user = self.shell(&line);
        user.env("ZKLOCK_APP", app)
            .env("ZKLOCK_SESSION_TIMEOUT", "36s")
            .env("ZKLOCK_TIMEOUT", "600s");
        let user = User(user.stdout(Stdio::null()).spawn().unwrap());
        until("it has a node", || (count() > before).then_some(()));
        user
    }

    /// Waits until the holder of a lock has told since when it holds it.
    fn is_told(&self, lock: &str) {
        until("it is told since when it is held", || {
            let why = self.prints(&format!("zklock why {lock} --within 20s"));
            why.contains("since MOMENT").then_some(())
        });
    }

    /// Takes what the guide shows for the command that begins so.
    fn shown(&mut self, begins: &str) -> (String, String) {
        let at = self.shown.iter().position(|(command, _)| command.starts_with(begins));
        self.shown.remove(at.unwrap_or_else(|| panic!("the guide does not show {begins}")))
    }

    /// What a command prints, masked.
    fn prints(&self, line: &str) -> String {
        let mut shell = self.shell(line).spawn().unwrap();
        // Who asks nothing may have ended.
        let _ = shell.stdin.take().unwrap().write_all(b"y\n");
        let output = shell.wait_with_output().unwrap();
        masked(&String::from_utf8(output.stdout).unwrap())
    }

    /// Waits until a command prints what the guide shows: what it tells may take its time.
    fn tells(&mut self, begins: &str, more: &str) {
        let (command, expected) = self.shown(begins);
        let expected = masked(&expected);
        println!("$ {command}\n{expected}");
        let mut before = String::new();
        until("it prints what the guide shows", || {
            let prints = self.prints(&command.replacen(begins, &format!("{begins}{more}"), 1));
            if prints != expected && prints != before {
                println!("not yet:\n{prints}");
            }
            before.clone_from(&prints);
            (prints == expected).then_some(())
        });
    }

    /// Looks at the screen of `top` in a terminal as soon as it says that a holder is silent.
    fn tops(&self) {
        // A minute, which nobody waits for here, and a busy machine.
        let varies = ["held for more than a minute", "! a look takes "];
        let stays = |line: &&str| !varies.iter().any(|words| line.contains(words));
        let guide = include_str!("../../README.md");
        let expected = guide.split("```text\n").find(|block| block.starts_with("zklock top: "));
        let expected = expected.and_then(|block| block.split("```").next()).unwrap();
        let steps = [
            ["ready> ", "stty cols 150 rows 30; zklock top --interval 100ms\\n"],
            ["hottest first", "l"],
            ["longest held first", ""],
            ["its holder is silent", "q"],
            ["ready> ", "exit\\n"],
        ];
        let mut shell = self.shell("exec python3 \"$@\"");
        let output = shell.arg("sh").arg(TERMINAL).args(steps.concat()).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{shown}");
        let mut screens = shown.split("\x1b[1;1H\x1b[1;1H");
        let awaited = |screen: &&str| {
            ["longest held first", "its holder is silent"]
                .iter()
                .all(|words| screen.contains(words))
        };
        let screen = screens.find(awaited).unwrap();
        // A line begins where the cursor goes.
        let (screen, _) = screen.split_once("\x1b[?1049l").unwrap_or((screen, ""));
        let lines = screen.split("\x1b[").map(|part| match part.split_once('H') {
            Some((place, line)) if place.bytes().all(|b| b.is_ascii_digit() || b == b';') => line,
            // The end of a line is cleared.
            _ => part.strip_prefix('K').or(part.strip_prefix('J')).unwrap_or(part),
        });
        let text = |lines: Vec<&str>| masked(&lines.join("\n"));
        println!("{screen:?}");
        assert_eq!(
            text(lines.filter(stays).collect()),
            text(expected.lines().filter(stays).collect())
        );
    }

    /// Runs a command that does something, with this node instead of the one in the guide. Again if
    /// ZooKeeper does not answer, as on a busy machine: nothing was done then.
    fn does(&mut self, begins: &str, node: Option<(&str, &str)>) {
        let (mut command, expected) = self.shown(begins);
        if let Some((node, czxid)) = node {
            let words = command.split(' ').map(|word| match word {
                word if word.starts_with("_c_") => node,
                word if word.starts_with("0x") => czxid,
                word => word,
            });
            command = words.collect::<Vec<_>>().join(" ");
        }
        let prints = until("ZooKeeper answers", || {
            Some(self.prints(&command)).filter(|prints| !prints.contains("does not answer"))
        });
        assert_eq!(prints, masked(&expected), "{command}");
    }
}

/// The holder of `nightly` is stopped after a while, and its node is deleted.
#[test]
fn the_guide_shows_what_the_commands_print() {
    let bed = Bed::new("guide");
    symlink(env!("CARGO_BIN_EXE_zklock"), bed.folder.join("zklock")).unwrap();
    let server = ZooKeeper::start();
    let mut stage = Stage { bed, servers: server.addr(), root: "/zklock", shown: shown() };
    stage.tells("zklock completions bash", "");
    stage.tells("zklock man run", "");
    let holds = r#"nightly --label "invoices of May" -- sleep 1000"#;
    let mut users = vec![stage.user("billing", holds), stage.user("report", "nightly -- true")];
    users.push(stage.user("spool", "printers --mode semaphore:3 -- sleep 1000"));
    let mut raw = RawClient::connect(&server.addr(), BOUND).unwrap();
    raw.create("/zklock/orders", b"", CreateMode::Persistent).unwrap();
    raw.create("/zklock/orders/7", b"", CreateMode::Persistent).unwrap();
    let reader = "/zklock/orders/7/be2ee212c5074b18a73381c86278175c__rlock__0000000000";
    raw.create(reader, b"10.0.0.8", CreateMode::Persistent).unwrap();
    stage.tells("zklock ls", "");
    stage.tells("zklock show nightly", "");

    // It tells with a heartbeat since when it holds the lock.
    let why = until("it is told since when it is held", || {
        let output = stage.shell("zklock why nightly --within 20s").output().unwrap();
        let why = String::from_utf8(output.stdout).unwrap();
        why.contains(" s, since ").then_some(why)
    });
    signal(&users[0].0, Signal::SIGSTOP);
    raw.delete(reader).unwrap();
    stage.tops();
    stage.tells("zklock why nightly", " --within 20s");
    let node = why.lines().find_map(|line| line.strip_prefix("node     ")).unwrap();
    let node = node.split_once(", czxid ");
    stage.does("zklock break nightly", node);
    stage.does("zklock break nightly", node);

    // Elsewhere nobody has used it before.
    stage.root = "/elsewhere";
    users.push(stage.user("billing", holds));
    stage.tells("zklock run nightly", "");
    // What the quick start shows is an error of the library, in the same words.
    users.push(stage.user("shop", "orders/7 --label demo -- sleep 1000"));
    stage.is_told("orders/7");
    let page = include_str!("../../../docs/quick-start.md").lines();
    let busy = { page }.find(|line| line.starts_with("orders/7 is being processed by ")).unwrap();
    let again = "zklock run orders/7 --timeout 1s --retries 1 -- true".to_owned();
    stage.shown.push((again, format!("zklock: {busy}\n")));
    stage.tells("zklock run orders/7", "");
    users.push(stage.user("shop", "orders/8 --mode read -- sleep 1000"));
    stage.is_told("orders/8");
    let (command, expected) = stage.shown("zklock watch orders/8");
    let expected = expected.replace("(/zklock/", "(/elsewhere/");
    let watched = stage.bed.folder.join("watched");
    let begin = || {
        std::fs::write(&watched, "").unwrap();
        User(stage.shell(&format!("exec {command} > watched 2>&1")).spawn().unwrap())
    };
    let mut watching = begin();
    until("it prints what the guide shows", || {
        let text = std::fs::read_to_string(&watched).unwrap();
        let begins: Vec<_> = text.lines().take(expected.lines().count()).collect();
        if watching.0.try_wait().unwrap().is_some() {
            println!("it ended: {text}");
            watching = begin();
        }
        (masked(&begins.join("\n")) == masked(&expected)).then_some(())
    });
    stage.does("zklock revoke orders/8", None);

    drop((users, watching));
    let small = ZooKeeper::builder().cfg_line("maxClientCnxns=5").ensemble(3);
    stage.servers = small.connect_string();
    stage.tells("zklock doctor", "");
    assert!(stage.shown.is_empty(), "nothing compares them: {:?}", stage.shown);
}

#[test]
fn what_differs_each_time_is_masked() {
    let text = "b on db7 (process 4214), for 3 min 5 s, since 2026-11-22T20:20:01.154Z \
                [_c_f412cbd8-2f53-4325-b912-b3a66286eb06-lock-0000000007]\nzk1:2181, czxid 0x8. 75";
    assert_eq!(
        masked(text),
        "b on HOST (process NUMBER) for TIME, since MOMENT [_c_ID-lock-NUMBER] ADDRESS, czxid HEX. 75"
    );
}
