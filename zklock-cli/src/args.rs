//! The arguments.

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, Parser, Subcommand};

/// Distributed locks on Apache ZooKeeper.
///
/// The settings are the environment variables of the library: ZKLOCK_CONNECT, ZKLOCK_ROOT,
/// ZKLOCK_SESSION_TIMEOUT, ZKLOCK_AUTH, ZKLOCK_ACL and so on.
#[derive(Debug, Parser)]
#[command(name = "zklock", version)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the locks are.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Server {
    /// The servers, for instance zk1:2181,zk2:2181 (instead of ZKLOCK_CONNECT)
    #[arg(long, global = true, value_name = "HOSTS")]
    pub(crate) connect: Option<String>,
    /// The node below which the locks are (instead of ZKLOCK_ROOT)
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) root: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while it holds a lock
    ///
    /// Programs with Curator, and those with zklock in its default layout, wait for this lock, and it waits
    /// for theirs. Locks of kazoo have the same names and are other locks.
    ///
    /// Exit codes: that of the command (128 + n if signal n ended it), 75 if somebody else holds the
    /// lock, 69 if ZooKeeper does not answer in time, 124 if the lock was lost or held for as long as
    /// it may be, 125 for any other failure of zklock, 126 if the command cannot be executed, 127 if it
    /// is not found.
    ///
    /// The environment of the command has ZKLOCK_NAME, ZKLOCK_TOKEN (the fencing token) and
    /// ZKLOCK_CONNECT, and ZKLOCK_RUN, by which what it starts is known.
    Run(Run),
    /// Shows who holds a lock, and who waits for it
    Show {
        /// The name of the lock
        name: String,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Says who holds a lock, who waits, and what is wrong if something is
    ///
    /// Each server is asked when it last heard of a process: by the four-letter word `cons` or, where that
    /// is not allowed, by its AdminServer on port 8080 (or the one in ZKLOCK_ADMIN_PORT).
    ///
    /// Exit codes: 0 if nothing is wrong, as far as it is told, 1 if something is, 69 if
    /// ZooKeeper does not answer, 125 for any other failure of zklock.
    Why {
        /// The name of the lock
        name: String,
        /// How long the servers may take to answer, in all
        #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time)]
        within: Duration,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Lists the locks that are in use
    ///
    /// Exit codes: 0, or 1 if there may be more, because not everything may be read or has a name below the root;
    /// then stderr names what is left out. 69 if ZooKeeper does not answer, 125 for any other failure of zklock.
    Ls {
        /// Only this lock and those below it
        prefix: Option<String>,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Shows the locks in use, live, with warnings about those that are suspect
    ///
    /// Keys sort them: h the hottest first, l the longest held, w the longest waited for, s the suspect ones.
    /// q ends it.
    Top {
        /// How often it looks
        #[arg(long, default_value = "1s", value_name = "TIME", value_parser = longer_than_zero)]
        interval: Duration,
        /// Prints one JSON document a look
        #[arg(long)]
        json: bool,
    },
    /// Serves a live page of the locks in use: who holds them, who waits, and what happened
    ///
    /// The page only shows, unless --allow-break is given. It is at http://127.0.0.1:8427/, which only
    /// this machine can reach; --listen names another address. However many people look, ZooKeeper is
    /// read once for all of them, and not at all while nobody looks. Up to 200 may look at the same time.
    #[cfg(feature = "serve")]
    Serve(Serve),
    /// Follows a lock: prints who joins its queue, who gets the lock, and who leaves
    Watch {
        /// The name of the lock
        name: String,
        /// Prints one JSON document a line
        #[arg(long)]
        json: bool,
    },
    /// Asks the holders of a lock to release it
    Revoke {
        /// The name of the lock
        name: String,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Deletes the node of one contender, so that the next one gets the lock
    ///
    /// Whoever held the lock goes on until it learns of this: a zklock process with its next heartbeat (once in a
    /// sixth of its session timeout), Curator and kazoo never. From then on only the fencing token protects. Exit codes: 0 if the
    /// node was deleted, 1 if it was gone already or the question was answered with no.
    Break(Break),
    /// Checks whether the ensemble is set up as locks need it
    ///
    /// Each server is asked whether its data are those of its leader: by the four-letter word `mntr` or,
    /// where that is not allowed, by its AdminServer on port 8080 (or the one in ZKLOCK_ADMIN_PORT).
    ///
    /// Exit codes: 0 if nothing is wrong, 1 if something is, which is so also if no server answers; 125 for a wrong
    /// argument or setting, and 69 if ZooKeeper answers no more while it is asked. The last line names what was
    /// not looked at.
    Doctor {
        /// Also checks that the servers remove empty directories, which they do once a minute: the longest
        /// time to wait for it
        #[arg(long, value_name = "TIME", value_parser = time)]
        containers_within: Option<Duration>,
        /// How long a server may take to say whether it serves
        #[arg(long, default_value = "2s", value_name = "TIME", value_parser = time)]
        within: Duration,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Prints a script with which a shell completes the arguments of zklock
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints a manual page (`zklock man run | man -l -` shows that of `zklock run`)
    Man {
        /// The command that the page is about; without one it is about zklock as a whole
        command: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The name of the lock, for instance backup or orders/7
    pub(crate) name: String,
    /// The longest time of one try [default: ZKLOCK_TIMEOUT, or 2s]
    #[arg(long, value_name = "TIME", value_parser = longer_than_zero)]
    pub(crate) timeout: Option<Duration>,
    /// The number of tries [default: ZKLOCK_RETRIES, or 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) retries: Option<u32>,
    /// The kind of the lock: mutex, read, write, or semaphore:LIMIT
    #[arg(long, default_value = "mutex", value_name = "KIND")]
    pub(crate) mode: Mode,
    /// The longest time for which the lock is held: then the command gets SIGTERM, and SIGKILL ten
    /// seconds later
    #[arg(long, value_name = "TIME", value_parser = longer_than_zero)]
    pub(crate) hold_at_most: Option<Duration>,
    /// What the lock is held for, as others see it. What is longer than 78 bytes is cut, with a warning
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Sends the command SIGTERM when somebody asks for the lock with `zklock revoke`; the lock is free when
    /// the command has ended
    #[arg(long)]
    pub(crate) revocable: bool,
    /// The exit code if somebody else holds the lock
    #[arg(long, default_value_t = crate::exit::BUSY, value_name = "CODE")]
    pub(crate) on_busy: u8,
    /// The command and its arguments; no shell is involved
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Break {
    /// The name of the lock
    pub(crate) name: String,
    /// The name of the node, as `zklock why` shows it
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) node: String,
    /// The czxid of the node, which tells it from a later one of the same name
    #[arg(long, value_parser = czxid)]
    pub(crate) czxid: u64,
    /// Does not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints one JSON document; needs --yes
    #[arg(long, requires = "yes")]
    pub(crate) json: bool,
}

/// A page with the locks.
#[cfg(feature = "serve")]
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Only this lock and those below it
    pub(crate) prefix: Option<String>,
    /// Where it listens. Whoever can reach this address can read the names of the locks and who holds
    /// them
    #[arg(long, default_value = "127.0.0.1:8427", value_name = "HOST:PORT")]
    pub(crate) listen: String,
    /// A name under which browsers may reach it, besides addresses, localhost and the name in
    /// --listen. A request for any other name is refused: a foreign page could point a name of its own at
    /// this server, and read it
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// How often it looks, while somebody looks at it
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time)]
    pub(crate) interval: Duration,
    /// Lets the page delete the node of a contender (see `zklock break`)
    #[arg(long, requires = "token_file")]
    pub(crate) allow_break: bool,
    /// A file with the token that the page asks for before it deletes a node
    #[arg(long, value_name = "FILE", requires = "allow_break")]
    pub(crate) token_file: Option<std::path::PathBuf>,
}

/// Returns the arguments as clap describes them. The manual knows each command, and so do the shells.
pub(crate) fn command() -> clap::Command {
    let mut built = Args::command();
    // Only then is `help` one of them.
    built.build();
    let names = built.get_subcommands().map(|command| command.get_name().to_owned());
    let pages = PossibleValuesParser::new(names.collect::<Vec<_>>());
    Args::command()
        .mut_subcommand("man", |man| man.mut_arg("command", |command| command.value_parser(pages)))
}

/// Longer times could not be added to the time of day.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if text.contains('M') {
        return Err("`M` is a month, which nobody means here, and `m` a minute".to_owned());
    }
    let short = (time <= LONGEST).then_some(time);
    short.ok_or_else(|| "accepted is at most 100 years, for instance 2s".to_owned())
}

fn longer_than_zero(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    let longer = (!time.is_zero()).then_some(time);
    longer.ok_or_else(|| "it must be longer than zero, for instance 2s".to_owned())
}

/// A number, decimal or with `0x` in front.
pub(crate) fn czxid(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| "accepted are numbers such as 0x1f or 31".to_owned())
}

impl Run {
    /// The name of the program to run, without its folder.
    pub(crate) fn program_name(&self) -> Option<String> {
        let program = self.command.first()?;
        Some(Path::new(program).file_name()?.to_string_lossy().into_owned())
    }
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Mutex,
    Read,
    Write,
    Semaphore(u32),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = |text: &str| text.parse().ok().filter(|limit| *limit > 0);
        match (text, text.strip_prefix("semaphore:").and_then(limit)) {
            ("mutex", _) => Ok(Mode::Mutex),
            ("read", _) => Ok(Mode::Read),
            ("write", _) => Ok(Mode::Write),
            (_, Some(limit)) => Ok(Mode::Semaphore(limit)),
            _ => Err(
                "accepted are mutex, read, write, and semaphore:3, with any limit of at least 1"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_locks_are_read() {
        let read = |text: &str| text.parse::<Mode>();
        assert_eq!(read("mutex"), Ok(Mode::Mutex));
        assert_eq!(read("semaphore:3"), Ok(Mode::Semaphore(3)));
        for wrong in ["", "semaphore", "semaphore:0", "semaphore:-1", "Write", "writer"] {
            assert!(read(wrong).is_err_and(|why| why.contains("accepted are")), "{wrong}");
        }
    }

    #[test]
    fn whatever_shows_or_does_something_prints_json() {
        let command = command();
        let has_json = |command: &clap::Command| {
            command.get_arguments().any(|argument| argument.get_long() == Some("json"))
        };
        let without = command.get_subcommands().filter(|command| !has_json(command));
        let without: Vec<_> = without.map(clap::Command::get_name).collect();
        // The output of a command is its own, a page has an interface of its own, and the rest is for shells.
        let serve: &[_] = if cfg!(feature = "serve") { &["serve"] } else { &[] };
        assert_eq!(without, [&["run"], serve, &["completions", "man"]].concat());
    }

    #[test]
    fn times_that_cannot_be_added_to_the_time_of_day_are_refused() {
        let mut seen = 0;
        for command in command().get_subcommands() {
            for argument in command.get_arguments() {
                if argument.get_value_names().is_none_or(|names| names != ["TIME"]) {
                    continue;
                }
                let option = format!("--{}", argument.get_long().unwrap());
                let parse = |time| {
                    Args::try_parse_from(["zklock", command.get_name(), &option, time])
                        .map_or_else(|error| error.to_string(), |_| String::new())
                };
                assert!(parse("101years").contains("at most 100 years"), "{option}");
                assert!(!parse("100years").contains("at most 100 years"), "{option}");
                assert!(parse("1M").contains("`M` is a month"), "{option}");
                seen += 1;
            }
        }
        assert!(seen >= 7, "{seen}");
    }

    /// All pages below a folder.
    fn pages(folder: &Path) -> Vec<std::path::PathBuf> {
        let (mut pages, names) = (Vec::new(), std::fs::read_dir(folder).unwrap());
        for path in names.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                pages.extend(self::pages(&path));
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
        pages
    }

    /// The words of the first command in a line, as a shell reads them.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            let word = words.last_mut().unwrap();
            match (c, quote) {
                (c, Some(q)) if c == q => quote = None,
                ('"' | '\'', None) => quote = Some(c),
                ('|' | ';' | '&' | '>', None) => break,
                ('#', None) if word.is_empty() => break,
                (' ', None) => words.push(String::new()),
                (c, _) => word.push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn what_the_pages_type_is_accepted() {
        let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), 0);
        for page in pages(root) {
            let text = std::fs::read_to_string(&page).unwrap();
            for block in text.split("\n```").skip(1).step_by(2) {
                let is_shell = block.starts_with("sh\n");
                for line in block.lines() {
                    let typed = line.strip_prefix("$ ").or(is_shell.then_some(line));
                    let Some(typed) = typed.filter(|line| line.starts_with("zklock ")) else {
                        continue;
                    };
                    if cfg!(not(feature = "serve")) && typed.starts_with("zklock serve") {
                        continue;
                    }
                    let read = command().try_get_matches_from(words(typed));
                    assert!(read.is_ok(), "{}: {typed}: {:?}", page.display(), read.err());
                    found += 1;
                }
            }
        }
        assert!(found >= 15, "{found}");
    }

    /// Of other programs that the guide calls.
    const OTHERS: [&str; 10] = [
        "foreground",
        "ignore-signal",
        "full",
        "path",
        "features",
        "no-default-features",
        "preserve-env",
        "session-command",
        "git",
        "test",
    ];

    #[test]
    fn the_guide_has_each_option_and_no_other() {
        let mut command = command();
        command.build();
        let guide = include_str!("../README.md");
        let mut written = std::collections::BTreeSet::new();
        for rest in guide.split("--").skip(1) {
            let end =
                rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
            let option = &rest[..end];
            // Lines of tables, and what is between words.
            if option.starts_with(|c: char| c.is_ascii_lowercase()) {
                written.insert(option.to_owned());
            }
        }
        OTHERS.iter().for_each(|other| assert!(written.remove(*other), "{other}"));
        let mut known = std::collections::BTreeSet::new();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            let options = command.get_arguments().filter_map(clap::Arg::get_long);
            let own = options.filter(|option| !["help", "version"].contains(option));
            known.extend(own.map(str::to_owned));
        }
        if cfg!(feature = "serve") {
            assert_eq!(written, known);
        } else {
            assert!(known.is_subset(&written), "{known:?} {written:?}");
        }
    }

    #[test]
    fn help_names_the_variables_that_change_what_it_says() {
        let mut command = command();
        for (name, variables) in [
            ("run", &["ZKLOCK_TIMEOUT", "ZKLOCK_RETRIES"][..]),
            ("why", &["ZKLOCK_ADMIN_PORT"]),
            ("doctor", &["ZKLOCK_ADMIN_PORT"]),
        ] {
            let of = command.find_subcommand_mut(name).unwrap();
            let help = of.render_long_help().to_string();
            for variable in variables {
                assert!(help.contains(variable), "{name}: {help}");
                assert!(include_str!("../README.md").contains(variable), "{variable}");
            }
        }
    }

    #[test]
    fn help_and_the_guide_say_how_long_a_label_may_be() {
        let (mut command, most) = (command(), format!("{} bytes", zklock::Label::LONGEST));
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for text in [&help, include_str!("../README.md")] {
            assert!(text.contains(&most), "{text}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }
}
