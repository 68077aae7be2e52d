//! Whatever ends, the command does not run without the lock.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zklock_test_support::{Control, Proxy, ZooKeeper};

use crate::bed::{
    BOUND, Bed, TWO, all_dead, find_guardian, guardian, is_alive, raw, signal, until,
};

/// What cannot be told is no reason to end the command.
#[test]
fn who_can_tell_nobody_what_happens_goes_on() {
    let bed = Bed::new("untold");
    // The shell itself tells what becomes of its children.
    let script = "exec 2>&1; trap 'exit 5' TERM; echo > begun; while :; do sleep 0.05; done";
    let (nobody, stderr) = std::io::pipe().unwrap();
    drop(nobody);
    let run = ["run", "a", "--revocable", "--", "sh", "-c", script];
    let mut child = bed.zklock(&run).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    bed.lines("begun", 1);
    let first = guardian(child.id());
    kill(first, Signal::SIGKILL).unwrap();
    until("another guardian", || {
        assert_eq!(child.try_wait().unwrap(), None);
        find_guardian(child.id()).filter(|next| *next != first)
    });
    assert_eq!(bed.code(&["revoke", "a"]), 0);
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// Somebody else who waits for the lock, and writes a line when it has it.
fn rival(bed: &Bed) -> Child {
    let run = ["run", "a", "--timeout", "60s", "--retries", "1", "--", "sh", "-c", "echo > rival"];
    bed.zklock(&run).spawn().unwrap()
}

#[test]
fn what_the_command_leaves_behind_ends_before_the_lock_is_released() {
    let bed = Bed::new("left-behind");
    let script = "echo $$ > pids; trap '' TERM; sleep 1000 & echo $! >> pids";
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    let pids = bed.pids("pids");
    sleep(Duration::from_millis(200));
    // It may take its time for its end.
    assert!(is_alive(pids[1]) && bed.nodes("a").len() == 1);
    until("its end", || {
        // In this order: it may end, and the node be deleted, between the two.
        let nodes = bed.nodes("a").len();
        assert!(nodes == 1 || !is_alive(pids[1]));
        child.try_wait().unwrap()
    });
    assert!(all_dead(&pids));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_lost_lock_ends_the_whole_group() {
    let bed = Bed::new("deleted");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    raw().delete(&bed.nodes("a")[0]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(all_dead(&pids));
}

#[test]
fn a_group_that_does_not_hear_is_dead_before_the_lease_can_be_anothers() {
    let bed = Bed::new("silence");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let deaf = format!("trap '' TERM; {TWO}");
    let run = ["run", "a", "--", "sh", "-c", &deaf];
    let mut child = bed.zklock_at(&proxy.addr(), &run).spawn().unwrap();
    let pids = bed.pids("pids");
    let mut other = rival(&bed);
    until("both are in the queue", || (bed.nodes("a").len() == 2).then_some(()));
    proxy.black_hole(true);
    let start = Instant::now();
    until("their end", || {
        // In this order: when they are dead, the rival may come in.
        let is_anothers = bed.folder.join("rival").exists();
        let dead = all_dead(&pids);
        assert!(dead || !is_anothers);
        dead.then_some(())
    });
    println!("dead after {:?} of silence", start.elapsed());
    assert_eq!(child.wait().unwrap().code(), Some(124));
    bed.lines("rival", 1);
    assert!(other.wait().unwrap().success());
}

/// It has a quarter of the lease for its end, which may be too little on a busy machine.
#[test]
fn while_the_lease_lasts_the_whole_group_is_asked_to_end() {
    let goes_on = "while :; do sleep 0.05; done";
    let behind = format!("trap 'echo > asked-too; exit 5' TERM; echo > begun; {goes_on}");
    let script = format!("trap 'echo > asked; exit 5' TERM; ({behind}) & {goes_on}");
    let script = script.as_str();
    until("both are asked", || {
        let bed = Bed::new("asked");
        let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
        let run = ["run", "a", "--", "sh", "-c", script];
        let mut child = bed.zklock_at(&proxy.addr(), &run).spawn().unwrap();
        bed.lines("begun", 1);
        proxy.black_hole(true);
        assert_eq!(child.wait().unwrap().code(), Some(124));
        ["asked", "asked-too"].iter().all(|file| bed.folder.join(file).exists()).then_some(())
    });
}

#[test]
fn while_zklock_is_stopped_its_group_ends_before_the_lock_is_anothers() {
    let bed = Bed::new("stopped");
    let deaf = format!("trap '' TERM; {TWO}");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &deaf]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGSTOP);
    let mut other = rival(&bed);
    until("their end", || {
        // In this order, as above.
        let is_anothers = bed.folder.join("rival").exists() || bed.nodes("a").is_empty();
        let dead = all_dead(&pids);
        assert!(dead || !is_anothers);
        dead.then_some(())
    });
    bed.lines("rival", 1);
    signal(&child, Signal::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(all_dead(&pids));
    assert!(other.wait().unwrap().success());
}

#[test]
fn the_death_of_zklock_takes_the_whole_group_along() {
    let bed = Bed::new("killed");
    let deaf = format!("trap '' TERM HUP INT; {TWO}");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &deaf]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    bed.until_dead(&pids);
}

#[test]
fn what_is_sent_to_all_processes_of_that_name_does_not_reach_the_guardian() {
    let bed = Bed::new("guardian");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    let guardian = guardian(child.id());
    let seen = |file: &str| std::fs::read_to_string(format!("/proc/{guardian}/{file}")).unwrap();
    assert_eq!(seen("comm"), "lock-guardian\n");
    assert!(!seen("cmdline").contains("zklock"), "{:?}", seen("cmdline"));
    for one in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        kill(guardian, one).unwrap();
    }
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("their end", || (all_dead(&pids) && !is_alive(guardian)).then_some(()));
}

#[test]
fn a_guardian_that_is_killed_has_a_successor() {
    let bed = Bed::new("successor");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    let first = guardian(child.id());
    kill(first, Signal::SIGKILL).unwrap();
    until("another guardian", || find_guardian(child.id()).filter(|next| *next != first));
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("their end", || all_dead(&pids).then_some(()));
}

/// It could not kill the group if `zklock` were stopped too.
#[test]
fn a_guardian_that_is_stopped_has_a_successor_that_knows_the_lease() {
    let bed = Bed::new("asleep");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    let first = guardian(child.id());
    // Before it has heard something it is left alone, since it may be slow.
    let waits = || std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap().contains(") S ");
    until("it waits", || waits().then_some(()));
    kill(first, Signal::SIGSTOP).unwrap();
    until("another guardian", || find_guardian(child.id()).filter(|next| *next != first));
    assert!(!is_alive(first), "it would take the end of zklock for that of the successor's");
    signal(&child, Signal::SIGSTOP);
    bed.until_dead(&pids);
    signal(&child, Signal::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(124));
}

/// Whether what is in the group of the command ends with `zklock`, before the lock is another's.
fn ends_with(zklock: &mut Child, bed: &Bed, pids: &[Pid]) {
    signal(zklock, Signal::SIGKILL);
    zklock.wait().unwrap();
    bed.until_dead(pids);
}

/// Stops the guardian of a `zklock` as soon as there is one that is not this one. Whether it has not begun yet.
fn stopped_at_birth(zklock: &mut Child, not: Option<Pid>) -> (Pid, bool) {
    let file =
        |process: i32, file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
    let of = format!("{0}/task/{0}/children", zklock.id());
    let start = Instant::now();
    let guardian = loop {
        let children = std::fs::read_to_string(format!("/proc/{of}")).unwrap();
        let mut children = children.split_whitespace().map(|child| child.parse::<i32>().unwrap());
        let is_one = |child: &i32| {
            file(*child, "cmdline").is_ok_and(|line| line.starts_with("lock-guardian"))
        };
        if let Some(one) =
            children.find(|child| not.map(Pid::as_raw) != Some(*child) && is_one(child))
        {
            break one;
        }
        assert!(start.elapsed() < BOUND && zklock.try_wait().unwrap().is_none(), "no guardian");
    };
    kill(Pid::from_raw(guardian), Signal::SIGSTOP).unwrap();
    // `zklock` may see it at once, and kill it.
    let stat = until("it is stopped", || {
        let stat = file(guardian, "stat").unwrap_or_default();
        (!stat.contains(") R ") && !stat.contains(") S ") && !stat.contains(") D ")).then_some(stat)
    });
    (Pid::from_raw(guardian), !stat.contains("(lock-guardian)"))
}

/// Whatever is sent to its guardian before that has begun.
#[test]
fn the_command_begins_when_its_guardian_listens() {
    until("a guardian is stopped before it has begun", || {
        let bed = Bed::new("unborn");
        let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
        let (first, unborn) = stopped_at_birth(&mut child, None);
        if unborn {
            let pids = bed.pids("pids");
            // It would go on at the end of `zklock`: the system continues what is stopped and orphaned.
            assert!(!is_alive(first), "the command began beside a guardian that is stopped");
            ends_with(&mut child, &bed, &pids);
            return Some(());
        }
        too_late(&mut child, first);
        None
    });
}

#[test]
fn a_successor_that_is_stopped_before_it_listens_has_one_too() {
    until("a successor is stopped before it has begun", || {
        let bed = Bed::new("successors");
        let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
        let pids = bed.pids("pids");
        let first = guardian(child.id());
        kill(first, Signal::SIGKILL).unwrap();
        let (second, unborn) = stopped_at_birth(&mut child, Some(first));
        if unborn {
            until("a third one", || {
                find_guardian(child.id()).filter(|next| *next != first && *next != second)
            });
            ends_with(&mut child, &bed, &pids);
            return Some(());
        }
        too_late(&mut child, second);
        None
    });
}

/// The guardian had begun: it ends what there is.
fn too_late(zklock: &mut Child, guardian: Pid) {
    zklock.kill().unwrap();
    zklock.wait().unwrap();
    _ = kill(guardian, Signal::SIGCONT);
}

#[test]
fn without_a_guardian_the_command_itself_dies_with_zklock() {
    let bed = Bed::new("alone");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    // So that it starts no successor.
    signal(&child, Signal::SIGSTOP);
    kill(guardian(child.id()), Signal::SIGKILL).unwrap();
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("its end", || {
        let nodes = bed.nodes("a").len();
        let dead = !is_alive(pids[0]);
        assert!(dead || nodes == 1);
        dead.then_some(())
    });
    // What it has started is beyond help.
    _ = kill(pids[1], Signal::SIGKILL);
}

#[test]
fn a_lock_is_held_at_most_for_as_long_as_it_says() {
    const MOST: Duration = Duration::from_millis(300);
    let run = ["run", "a", "--hold-at-most", "300ms", "--", "sh", "-c", TWO];
    // On a busy machine it may not have come so far.
    until("both of its processes run", || {
        let bed = Bed::new("at-most");
        let (control, start) = (Control::timers(), Instant::now());
        let mut child = bed.zklock(&run).spawn().unwrap();
        let runs = until("both run, or its end", || {
            let pids = std::fs::read_to_string(bed.folder.join("pids")).unwrap_or_default();
            let both = pids.ends_with('\n') && pids.lines().count() == 2;
            (both || child.try_wait().unwrap().is_some()).then_some(both)
        });
        let seen = Instant::now();
        if runs {
            let pids = bed.pids("pids");
            until("their end", || all_dead(&pids).then_some(()));
            control.within("held", seen.elapsed(), MOST);
        }
        let code = child.wait().unwrap().code();
        // ZooKeeper may not have answered.
        assert!(code == Some(124) || !runs && code == Some(69), "{code:?}");
        assert!(start.elapsed() >= MOST);
        assert_eq!(bed.nodes("a"), [""; 0]);
        runs.then_some(())
    });
}

#[test]
fn who_is_told_to_end_while_it_waits_leaves_the_queue_at_once() {
    let bed = Bed::new("gives-up");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.pids("pids");
    let mut waiter = rival(&bed);
    until("both are in the queue", || (bed.nodes("a").len() == 2).then_some(()));
    signal(&waiter, Signal::SIGTERM);
    assert_eq!(waiter.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(bed.nodes("a").len(), 1);
    signal(&holder, Signal::SIGTERM);
    assert_eq!(holder.wait().unwrap().code(), Some(128 + 15));
    assert!(!bed.folder.join("rival").exists());
}
