//! The owner of a contender: what its node says about its process.

use std::fmt;
use std::time::{Duration, SystemTime};

use once_cell::sync::Lazy;
use serde::{Deserialize, Serialize};

use crate::base::label::Label;
use crate::base::machine::Machine;

/// A process that holds a lock or waits for it, as its node describes it.
///
/// zklock writes this as JSON into the data of its nodes, where any ZooKeeper tool shows it.
/// Curator writes only the host's address, and kazoo an identifier; the other fields are then
/// empty.
///
/// ```
/// use zklock::Owner;
///
/// let owner = Owner::from_payload(br#"{"host":"db7","pid":42,"app":"orders"}"#);
/// assert_eq!(owner.to_string(), "orders on db7 (process 42)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// The host's name, or its address if the other client wrote that.
    #[serde(default)]
    pub host: String,
    /// The process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The application's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Since when the node has been in the queue, by the wall clock of its process, in RFC 3339: the node's
    /// time. It is before the grant, and after a handoff it is also before the present holder began to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What it acquires or holds the lock [for](crate::base::options::LockOptions::label).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The time when the present holder was granted the lock, by the wall clock of its process, in RFC 3339:
    /// the holder's time, which after a handoff is later than that of its node. A holder in this process
    /// is always known; another process writes it into its node when its caller has held the lock
    /// for longer than a heartbeat, a sixth of the session timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<String>,
    /// Whether the process may keep the lock unused for a while; it releases the lock as soon as
    /// somebody queues for it (the option `linger`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub linger: bool,
    /// Whether the owner was asked to release the lock, and still holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// A unique mark, in layouts whose node names are not unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
}

/// The longest payload that is written and read, in bytes. Longer data were not written by a lock.
pub const LONGEST_PAYLOAD: usize = 4096;

/// The data that Curator's `Revoker` writes to ask the owner of a node to release the lock.
pub const REVOKE: &[u8] = b"__REVOKE__";

impl Owner {
    /// Describes this process at the present time.
    ///
    /// ```
    /// use zklock::Owner;
    ///
    /// let owner = Owner::here(Some("orders"));
    /// assert_eq!((owner.app.as_deref(), owner.pid), (Some("orders"), Some(std::process::id())));
    /// ```
    pub fn here(app: Option<&str>) -> Self {
        Owner::on(None, app)
    }

    /// Describes the process at the present time: that of a simulated machine, if there is one.
    pub(crate) fn on(machine: Option<&dyn Machine>, app: Option<&str>) -> Self {
        let real = || (HOST.clone(), std::process::id());
        let (host, pid) = machine.map_or_else(real, |machine| machine.process());
        Owner {
            host,
            pid: Some(pid),
            app: app.map(str::to_owned).or_else(|| PROGRAM.clone()),
            since: Some(said(machine, Duration::ZERO)),
            label: None,
            granted: None,
            linger: false,
            revoked: false,
            attempt: None,
        }
    }

    /// Sets for how long the present holder has held the lock.
    pub(crate) fn granted_ago_on(mut self, machine: Option<&dyn Machine>, ago: Duration) -> Self {
        self.granted = Some(said(machine, ago));
        self
    }

    /// Sets whether the process may keep the lock unused for a while.
    ///
    /// ```
    /// use zklock::Owner;
    ///
    /// let payload = Owner::here(None).linger(true).to_payload();
    /// assert!(Owner::from_payload(&payload).linger);
    /// ```
    pub fn linger(mut self, linger: bool) -> Self {
        self.linger = linger;
        self
    }

    /// Sets what the lock is acquired for, with the limits of a [`Label`].
    ///
    /// ```
    /// use zklock::Owner;
    ///
    /// let owner = Owner::here(Some("orders")).label(Some("import\n"));
    /// assert!(owner.to_string().contains(" for \"import\""));
    /// ```
    pub fn label(mut self, label: Option<&str>) -> Self {
        let label = label.map(|label| Label::new(label).to_string());
        self.label = label.filter(|label| !label.is_empty());
        self
    }

    /// Sets a mark that makes the payload unique.
    ///
    /// ```
    /// use zklock::driver::Attempt;
    /// use zklock::Owner;
    ///
    /// let [one, other] = [(); 2].map(|()| Owner::here(None).attempt(Attempt::new().simple()));
    /// assert_ne!(one.to_payload(), other.to_payload());
    /// ```
    pub fn attempt(mut self, attempt: impl fmt::Display) -> Self {
        self.attempt = Some(attempt.to_string());
        self
    }

    /// Returns the payload: the data of a node.
    ///
    /// ```
    /// use zklock::Owner;
    ///
    /// let payload = Owner::here(Some("orders")).to_payload();
    /// assert!(payload.starts_with(b"{\"host\":"));
    /// ```
    pub fn to_payload(&self) -> Vec<u8> {
        // About the longest length, so that the text is not moved while it grows.
        let mut payload = Vec::with_capacity(160);
        match serde_json::to_writer(&mut payload, self) {
            Ok(()) => payload,
            Err(_) => Vec::new(),
        }
    }

    /// Returns the payload, or `said` in its place if there is one.
    pub(crate) fn to_payload_or(&self, said: Option<&str>) -> Vec<u8> {
        said.map_or_else(|| self.to_payload(), |said| said.as_bytes().to_vec())
    }

    /// Reads a payload that zklock has written; `None` for one of another format, which is to stay
    /// as it is.
    pub(crate) fn of_zklock(payload: &[u8]) -> Option<Self> {
        let owner = serde_json::from_slice::<Owner>(payload).ok()?;
        (owner.to_payload() == payload).then_some(owner)
    }

    /// Returns the data of a node of this process after its owner was asked to release: the payload
    /// with a mark, or unchanged if it has another format.
    pub(crate) fn asked_to_let_go(payload: &[u8]) -> Vec<u8> {
        match Owner::of_zklock(payload) {
            Some(owner) => Owner { revoked: true, ..owner }.to_payload(),
            None => payload.to_vec(),
        }
    }

    /// Reads a payload, written by zklock or by another client. If the owner was asked to release,
    /// nothing else is known until it writes its description again, which only zklock does.
    ///
    /// ```
    /// use zklock::Owner;
    ///
    /// assert_eq!(Owner::from_payload(b"10.0.0.7").host, "10.0.0.7"); // Written by Curator.
    /// assert!(Owner::from_payload(b"__REVOKE__").revoked);
    /// ```
    pub fn from_payload(data: &[u8]) -> Self {
        if data.len() > LONGEST_PAYLOAD || data == REVOKE {
            return Owner { revoked: data == REVOKE, ..Owner::default() };
        }
        // Other programs write JSON of their own, in which every field of this one is missing.
        let read = serde_json::from_slice(data).ok().filter(|read: &Owner| !read.host.is_empty());
        read.unwrap_or_else(|| Owner {
            host: String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).collect(),
            ..Owner::default()
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.app, self.host.as_str()) {
            (Some(app), host) => write!(f, "{app} on {host}")?,
            (None, "") => f.write_str("an unknown process")?,
            (None, host) => f.write_str(host)?,
        }
        if let Some(pid) = self.pid {
            write!(f, " (process {pid})")?;
        }
        if let Some(label) = &self.label {
            write!(f, " for {label:?}")?;
        }
        if let Some(since) = &self.since {
            write!(f, ", in the queue since {since}")?;
        }
        if let Some(granted) = &self.granted {
            write!(f, ", holding since {granted}")?;
        }
        if self.revoked {
            f.write_str(", asked to release")?;
        }
        Ok(())
    }
}

static HOST: Lazy<String> =
    Lazy::new(|| rustix::system::uname().nodename().to_string_lossy().into_owned());

static PROGRAM: Lazy<Option<String>> = Lazy::new(|| {
    let path = std::env::current_exe().ok()?;
    Some(path.file_stem()?.to_string_lossy().into_owned())
});

/// The time of day, for people to read; nothing is decided by it, so the wall clock is right here.
#[allow(clippy::disallowed_methods)]
pub(crate) fn wall_clock(machine: Option<&dyn Machine>) -> SystemTime {
    machine.map_or_else(SystemTime::now, |machine| machine.wall_clock())
}

fn said(machine: Option<&dyn Machine>, ago: Duration) -> String {
    let now = wall_clock(machine);
    humantime::format_rfc3339_millis(now.checked_sub(ago).unwrap_or(now)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_survives_the_round_trip() {
        let owner = Owner::here(Some("orders")).label(Some("request 7"));
        assert_eq!(Owner::from_payload(&owner.to_payload()), owner);
        let shown = owner.to_string();
        assert!(shown.starts_with("orders on "), "{shown}");
        assert!(shown.contains(&std::process::id().to_string()), "{shown}");
        assert!(shown.contains(" for \"request 7\", in the queue since "), "{shown}");
    }

    #[test]
    fn who_was_asked_to_let_go_says_who_it_is() {
        let owner = Owner::here(Some("orders")).attempt("7");
        let asked = Owner::asked_to_let_go(&owner.to_payload());
        assert_eq!(Owner::from_payload(&asked), Owner { revoked: true, ..owner });
        // What is fixed stays as it is.
        for fixed in [&b""[..], b"10.0.0.7", b"{}", b"7", &asked] {
            assert_eq!(Owner::asked_to_let_go(fixed), fixed);
        }
    }

    #[test]
    fn payloads_of_others_are_shown_as_they_are() {
        assert_eq!(Owner::from_payload(b"10.0.0.7").to_string(), "10.0.0.7");
        assert_eq!(Owner::from_payload(b"").to_string(), "an unknown process");
        for json in [r#"{"job":"import"}"#, r#"{"pid":4711,"name":"x"}"#, "[]"] {
            let owner = Owner::from_payload(json.as_bytes());
            assert_eq!((owner.to_string(), owner.pid), (json.to_owned(), None));
        }
        let revoked = Owner::from_payload(REVOKE);
        assert_eq!(revoked.to_string(), "an unknown process, asked to release");
        assert_eq!(Owner::from_payload(&[0xff, 0x00, b'a']).host, "\u{fffd}a");
        assert_eq!(Owner::from_payload(&vec![b'x'; 1 << 20]), Owner::default());
    }
}
