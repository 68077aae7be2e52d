//! Kinds of locks whose nodes do not see each other.

use std::fmt;
use std::net::IpAddr;
use std::str::from_utf8;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::layout::contender::Contender;

/// What a name is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A read/write lock.
    ReadWrite,
    /// A semaphore.
    Semaphore,
}

impl Kind {
    /// The kind of what is taken in a mode.
    pub fn of(mode: Mode) -> Kind {
        match mode {
            Mode::Mutex => Kind::Mutex,
            Mode::Read | Mode::Write => Kind::ReadWrite,
            Mode::Permit => Kind::Semaphore,
        }
    }

    /// Whether locks of these kinds do not exclude each other. A mutex and a read/write lock do: in every
    /// layout that has both, they stand in one queue.
    pub fn is_blind_to(self, other: Kind) -> bool {
        (self == Kind::Semaphore) != (other == Kind::Semaphore)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Mutex => "a mutex",
            Kind::ReadWrite => "a read/write lock",
            Kind::Semaphore => "a semaphore",
        })
    }
}

/// What the name of a child says of another kind of lock of the same path; its facts say whether that is
/// so.
#[derive(Clone, Copy, Debug)]
pub enum Sign {
    /// A directory, in which such nodes are of the other kind.
    Directory {
        /// Which kind.
        kind: Kind,
        /// Whether a node in it is one.
        node: fn(&str) -> bool,
    },
    /// A node of the other kind, if it is ephemeral.
    Node(Kind),
    /// The same, if a client of Curator made it: that does not see ours, though we see it.
    NodeOfCurator(Kind),
}

impl Sign {
    /// Of which kind.
    pub fn kind(self) -> Kind {
        match self {
            Sign::Directory { kind, .. } | Sign::Node(kind) | Sign::NodeOfCurator(kind) => kind,
        }
    }

    /// Whether the data of a node agree with it: a client of Curator writes its address, or nothing where the
    /// lock is revocable.
    pub fn agrees_with(self, data: &[u8]) -> bool {
        let is_address = || from_utf8(data).is_ok_and(|ip| ip.parse::<IpAddr>().is_ok());
        match self {
            Sign::NodeOfCurator(_) => data.is_empty() || is_address(),
            Sign::Directory { .. } | Sign::Node(_) => true,
        }
    }
}

/// What a child of the directory of a mutex or a read/write lock says of a semaphore: that of Curator's layout has
/// its permits in a directory there, and kazoo's permits are there themselves. Curator's other directory, `locks`,
/// may as well be a mutex of that name.
pub fn semaphore_beside_lock(child: &str) -> Option<Sign> {
    let (kind, node) = (Kind::Semaphore, is_permit_of_curator as fn(&str) -> bool);
    match child {
        "leases" => Some(Sign::Directory { kind, node }),
        _ => is_identifier_of_kazoo(child).then_some(Sign::Node(kind)),
    }
}

/// What stands before the number of a permit of Curator's semaphore.
pub const LEASE: &str = "-lease-";

/// Whether a child of `leases` is a permit of Curator's semaphore.
pub fn is_permit_of_curator(child: &str) -> bool {
    Contender::sequence_after(child, LEASE).is_some()
}

/// Whether it is an identifier as kazoo writes it: the name of a permit of its semaphore is nothing else.
pub fn is_identifier_of_kazoo(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The error of a name that is in use as another kind of lock.
pub fn two_kinds(present: Kind, wanted: Kind) -> LockError {
    let why = format!(
        "it is in use as {present}, which does not exclude {wanted} of the same name: give one of them \
         another name"
    );
    LockError::new(ErrorKind::InvalidOption, why)
}
