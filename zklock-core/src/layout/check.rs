//! Checks drivers, and the nodes that they name, before ZooKeeper sees any.

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::owner::{LONGEST_PAYLOAD, Owner};
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, LAST_SAFE_SEQUENCE};
use crate::layout::driver::LockDriver;
use crate::layout::new_node::{NewNode, Proof};
use crate::layout::refusals::{refuse, unread, unsupported};
use crate::name::path::is_refused;

/// Checks a driver, as far as possible, before it names a node.
///
/// # Errors
///
/// [`ErrorKind::InvalidOption`] for names that ZooKeeper or the driver itself refuses, and for
/// nodes that could not be told apart; [`ErrorKind::Unsupported`] for a mode that the driver does
/// not have.
pub fn check(driver: &dyn LockDriver, mode: Mode) -> Result<(), LockError> {
    let owner = Owner::default();
    let [one, other] = [Attempt::new(), Attempt::new()].map(|a| driver.node(&a, mode, &owner));
    one.check(driver)?;
    let told_apart = match one.proof {
        Proof::Name => one.prefix != other.prefix,
        Proof::Payload => one.payload != other.payload,
        Proof::Owner => true,
    };
    if !told_apart {
        let what = if one.proof == Proof::Name { "names" } else { "payloads" };
        return Err(refuse(
            driver,
            format!(
                "gives all nodes the same {what}: include the attempt, or return from `proof` how \
                 a node is recognised"
            ),
        ));
    }
    // A number that is read as another one orders the queue by chance. One at the end need not be read: an acquire
    // with such a node fails.
    let last = LAST_SAFE_SEQUENCE - 1;
    let at_the_end = [last, -last, i64::from(i32::MIN)];
    for number in [0, 7].into_iter().chain(at_the_end) {
        let name = driver.example(mode, number);
        let contender = match driver.parse(&name) {
            Some(contender) => contender,
            None if at_the_end.contains(&number) => continue,
            None => return Err(unread(driver, &name)),
        };
        let sequential = driver.kind() == NodeKind::EphemeralSequential;
        if contender.name != name || sequential && contender.sequence != number {
            let (read, number) = (contender.name, contender.sequence);
            let what = "does not parse one of its own names as it is".to_owned();
            let aside = format!("it reads {name:?} as {read:?} with number {number}");
            return Err(refuse(driver, what).aside(format!("{driver:?}: {aside}")));
        }
    }
    if !driver.supports(mode) {
        return Err(unsupported(driver, mode));
    }
    Ok(())
}

impl NewNode {
    /// Checks for names and data that ZooKeeper would refuse, or put elsewhere.
    ///
    /// ```
    /// use zklock::layout::Numbered;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::{Mode, Owner};
    ///
    /// let driver = Numbered::new("jobs/");
    /// let node = driver.node(&Attempt::new(), Mode::Mutex, &Owner::here(None));
    /// assert!(node.check(&driver).is_err_and(|error| error.to_string().contains("has a slash")));
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`], which says what is accepted.
    pub fn check(&self, driver: &dyn LockDriver) -> Result<(), LockError> {
        let prefix = &self.prefix;
        // Most prefixes have nothing but these. Not `all`: this is done at every acquire, and without an
        // early end it takes a tenth of the time.
        let plain = prefix.bytes().fold(true, |plain, b| plain & b.is_ascii_graphic());
        let flaw = if prefix.is_empty() {
            "is empty"
        } else if prefix.contains('/') {
            "has a slash"
        } else if !plain && prefix.chars().any(is_refused) {
            "has a character that ZooKeeper refuses"
        } else if self.kind == NodeKind::Ephemeral && matches!(prefix.as_str(), "." | "..") {
            "is not a name"
        } else if self.payload.len() > LONGEST_PAYLOAD {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                format!(
                    "the payload of the node would have {} bytes, and at most {LONGEST_PAYLOAD} \
                     are accepted; shorten the application's name",
                    self.payload.len()
                ),
            ));
        } else {
            return Ok(());
        };
        let refused = refuse(driver, format!("returns a prefix that {flaw}"));
        Err(refused.aside(format!("{driver:?}: the prefix is {prefix:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::contender::Contender;
    use crate::layout::refusals::{mixed, unmarked};

    /// A driver with every fault that one can have.
    #[derive(Clone, Debug)]
    struct Faulty {
        prefix: &'static str,
        unique: bool,
        proof: Proof,
        parse: fn(&str) -> Option<Contender>,
    }

    impl LockDriver for Faulty {
        fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
            let unique = if self.unique { attempt.simple() } else { String::new() };
            format!("{unique}{}", self.prefix)
        }
        fn parse(&self, name: &str) -> Option<Contender> {
            (self.parse)(name)
        }
        fn proof(&self) -> Proof {
            self.proof
        }
    }

    fn reads(name: &str) -> Option<Contender> {
        Some(Contender::new(name, Contender::sequence_after(name, "-")?, Mode::Mutex))
    }

    const GOOD: Faulty = Faulty { prefix: "-", unique: true, proof: Proof::Name, parse: reads };

    #[test]
    fn a_malformed_driver_is_refused_and_told_why() {
        assert!(check(&GOOD, Mode::Mutex).is_ok());
        let fixed = Faulty { unique: false, prefix: "n-", ..GOOD };
        for proof in [Proof::Payload, Proof::Owner] {
            assert!(check(&Faulty { proof, ..fixed.clone() }, Mode::Mutex).is_ok());
        }
        for (driver, why) in [
            (Faulty { prefix: "", unique: false, ..GOOD }, "is empty"),
            (Faulty { prefix: "a/-", ..GOOD }, "has a slash"),
            (Faulty { prefix: "a\0-", ..GOOD }, "ZooKeeper refuses"),
            (fixed, "the same names"),
            (Faulty { parse: |_| None, ..GOOD }, "does not parse"),
            (
                Faulty { parse: |name| Some(Contender::new(name, 7, Mode::Mutex)), ..GOOD },
                "number 7",
            ),
            (
                Faulty {
                    parse: |name| reads(name).map(|c| Contender { name: "x".into(), ..c }),
                    ..GOOD
                },
                "as \"x\"",
            ),
        ] {
            let error = check(&driver, Mode::Mutex).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
        assert_eq!(check(&GOOD, Mode::Read).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    /// Past their end, numbers have a sign.
    #[test]
    fn a_driver_that_takes_a_number_at_the_end_for_another_is_refused() {
        let unsigned = |name: &str| {
            let (_, digits) = name.rsplit_once('-')?;
            Some(Contender::new(name, digits.parse().ok()?, Mode::Mutex))
        };
        let error = check(&Faulty { parse: unsigned, ..GOOD }, Mode::Mutex).unwrap_err();
        assert!(format!("{error:#}").contains("--2146435071"), "{error:#}");
        // Whose prefix ends in what looks like a sign.
        let error = check(&Faulty { prefix: "--", ..GOOD }, Mode::Mutex).unwrap_err();
        assert!(format!("{error:#}").contains("with number -2146435071"), "{error:#}");
        let none = |name: &str| reads(name).filter(|one| one.sequence >= 0);
        assert!(check(&Faulty { parse: none, ..GOOD }, Mode::Mutex).is_ok());
    }

    /// What a driver has in it, and what it writes, is for the log.
    #[test]
    fn errors_name_a_layout_and_show_only_operators_what_it_contains() {
        use crate::layout::kazoo::Kazoo;
        use crate::layout::plain::HostNodes;

        let hosts = HostNodes::of("db7");
        let node = |host| HostNodes::of(host).node(&Attempt::new(), Mode::Read, &Owner::default());
        let named = Kazoo::default().identifier("db7");
        for (what, error) in [
            ("mixed", mixed(&hosts, &HostNodes::of("db8"))),
            ("unsupported", unsupported(&hosts, Mode::Mutex)),
            ("unmarked", unmarked(&hosts)),
            ("unread", unread(&hosts, "db7-R-0000000001")),
            ("refused", refuse(&hosts, "is not accepted".to_owned())),
            ("prefix", node("db7/").check(&HostNodes::of("db7/")).unwrap_err()),
            ("kazoo", mixed(&named, &hosts)),
        ] {
            let text = error.to_string();
            assert!(!text.contains("db7") && text.contains("HostNodes"), "{what}: {text}");
            assert!(format!("{error:#}").contains("db7"), "{what}: {error:#}");
        }
        let lying = Faulty { parse: |name| Some(Contender::new(name, 7, Mode::Mutex)), ..GOOD };
        let error = check(&lying, Mode::Mutex).unwrap_err();
        assert!(!error.to_string().contains("0000000000"), "{error}");
    }

    #[test]
    fn a_payload_over_the_limit_is_refused() {
        let owner = Owner::here(Some(&"x".repeat(LONGEST_PAYLOAD)));
        let error = GOOD.node(&Attempt::new(), Mode::Mutex, &owner).check(&GOOD).unwrap_err();
        assert!(error.to_string().contains("at most 4096"), "{error}");
    }
}
