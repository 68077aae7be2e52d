//! Without a terminal and with next to no environment, as jobs run.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use zklock_test_support::ZooKeeper;

use crate::bed::{Bed, skipped, through, until};

#[test]
fn it_needs_no_environment() {
    let bed = Bed::new("bare");
    let script = "echo $HOME$PATH$USER; exit 6";
    let inner = bed.zklock(&["run", "a", "--timeout", "60s", "--", "/bin/sh", "-c", script]);
    let mut bare = Command::new(inner.get_program());
    bare.args(inner.get_args()).env_clear().current_dir("/").stdin(Stdio::null());
    let output = bare.output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// As daemons start it that leave their children to the system, which tells nobody then how they ended. The
/// command finds SIGCHLD as `timeout` leaves it, too. And as systemd starts it, which ignores SIGPIPE.
#[test]
fn it_sees_the_end_of_its_command_where_sigchld_is_ignored() {
    let bed = Bed::new("unwaited");
    let script = "grep SigIgn: /proc/self/status > ignored; exit 6";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script]);
    let mut child = through(&["env", "--ignore-signal=CHLD,PIPE"], &inner).spawn().unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(6));
    assert_eq!(bed.nodes("a"), [""; 0]);
    let line = bed.lines("ignored", 1).remove(0);
    let bits = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    for one in [Signal::SIGCHLD, Signal::SIGPIPE] {
        assert_eq!(bits >> (one as u32 - 1) & 1, 0, "{one}: {line}");
    }
}

/// Debian's cron, which sees no jobs of this machine, and ends with the test.
struct Cron(Child);

impl Cron {
    fn start(bed: &Bed, jobs: &str) -> Option<Self> {
        let there = std::path::Path::new("/usr/sbin/cron").exists();
        if !there || !nix::unistd::geteuid().is_root() {
            skipped("no cron: this needs root, and Debian's package cron");
            return None;
        }
        std::fs::create_dir(bed.folder.join("cron.d")).unwrap();
        std::fs::write(bed.folder.join("cron.d/jobs"), jobs).unwrap();
        let script = "set -e; mount --bind cron.d /etc/cron.d; mount --bind /dev/null /etc/crontab; \
                      mount -t tmpfs tmpfs /var/spool/cron; mkdir /var/spool/cron/crontabs; \
                      mount -t tmpfs tmpfs /run; exec setpriv --pdeathsig KILL /usr/sbin/cron -f";
        let mut cron = Command::new("unshare");
        cron.args(["--mount", "sh", "-c", script]).current_dir(&bed.folder).env_clear();
        cron.stdin(Stdio::null());
        Some(Cron(cron.spawn().unwrap()))
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn of_two_machines_with_the_same_job_in_cron_one_runs_it() {
    let bed = Bed::new("cron");
    let (folder, zklock) = (bed.folder.display(), env!("CARGO_BIN_EXE_zklock"));
    let (servers, root) =
        (ZooKeeper::shared().addr(), bed.path("").trim_end_matches('/').to_owned());
    // Each of two lines is a machine.
    let job = format!(
        "* * * * * root cd {folder}; ZKLOCK_CONNECT={servers} ZKLOCK_ROOT={root} {zklock} run \
         jobs/nightly --timeout 5s --retries 1 -- sh -c 'tty >> ran; until [ -s codes ]; do sleep 0.1; done' \
         2>> said; echo $? >> codes\n"
    );
    let Some(_cron) = Cron::start(&bed, &format!("{job}{job}")) else { return };
    // It looks at its jobs once in a minute.
    let mut codes = bed.lines("codes", 2)[..2].to_vec();
    codes.sort();
    let said = std::fs::read_to_string(bed.folder.join("said")).unwrap();
    assert_eq!(codes, ["0", "75"], "{said}");
    // In the next minute there may be another one.
    assert_eq!(bed.lines("ran", 1)[0], "not a tty");
}
