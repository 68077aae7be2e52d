//! The access control lists of the nodes that a session creates.

use std::ops::BitOr;

use zookeeper_client as zk;

/// The access control list of every node that a session creates.
///
/// ```
/// use zklock::{Acl, AclEntry, Permissions};
///
/// let id = "10.0.0.0/8".to_owned();
/// let inside = AclEntry { scheme: "ip".to_owned(), id, permissions: Permissions::ALL };
/// let acl = Acl::Custom(vec![inside]);
/// assert_ne!(acl, Acl::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acl {
    /// Everybody may do everything.
    #[default]
    Open,
    /// Only clients with the creator's credentials may do anything.
    CreatorAll,
    /// Clients with the creator's credentials may do everything; everybody else may read.
    ReadOnlyOthers,
    /// The given entries.
    Custom(Vec<AclEntry>),
}

/// One entry of an access control list.
///
/// ```
/// use zklock::{AclEntry, Permissions};
///
/// let everybody = ("world".to_owned(), "anyone".to_owned());
/// let looks = AclEntry { scheme: everybody.0, id: everybody.1, permissions: Permissions::READ };
/// assert!(!looks.permissions.contains(Permissions::WRITE));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// The scheme, for instance `digest`, `ip`, `auth` or `world`.
    pub scheme: String,
    /// The identity within the scheme, for instance `10.0.0.0/8`.
    pub id: String,
    /// The permissions of that identity.
    pub permissions: Permissions,
}

/// A set of permissions, joined with `|`.
///
/// ```
/// use zklock::Permissions;
///
/// let some = Permissions::READ | Permissions::CREATE | Permissions::DELETE;
/// assert!(Permissions::ALL.contains(some) && some != Permissions::ALL);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions(u8);

impl Permissions {
    /// No permission.
    pub const NONE: Permissions = Permissions(0);
    /// Read data and list children.
    pub const READ: Permissions = Permissions(1);
    /// Set data.
    pub const WRITE: Permissions = Permissions(2);
    /// Create children.
    pub const CREATE: Permissions = Permissions(4);
    /// Delete children.
    pub const DELETE: Permissions = Permissions(8);
    /// Change the access control list.
    pub const ADMIN: Permissions = Permissions(16);
    /// All permissions.
    pub const ALL: Permissions = Permissions(31);

    /// Returns whether this set contains every permission of `other`.
    ///
    /// ```
    /// use zklock::Permissions;
    ///
    /// assert!(Permissions::ALL.contains(Permissions::ADMIN));
    /// assert!(!Permissions::READ.contains(Permissions::READ | Permissions::WRITE));
    /// ```
    pub fn contains(self, other: Permissions) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set with these bits, as ZooKeeper numbers them.
    pub(crate) fn of_bits(bits: u8) -> Permissions {
        Permissions(bits & Permissions::ALL.0)
    }

    fn to_client(self) -> zk::Permission {
        EACH.into_iter()
            .filter(|(ours, _)| self.contains(*ours))
            .fold(zk::Permission::NONE, |all, (_, theirs)| all | theirs)
    }
}

const EACH: [(Permissions, zk::Permission); 5] = [
    (Permissions::READ, zk::Permission::READ),
    (Permissions::WRITE, zk::Permission::WRITE),
    (Permissions::CREATE, zk::Permission::CREATE),
    (Permissions::DELETE, zk::Permission::DELETE),
    (Permissions::ADMIN, zk::Permission::ADMIN),
];

/// Scheme, identity and the bits of the permissions of an entry that a server returned.
pub(super) fn entry(acl: &zk::Acl) -> (String, String, u8) {
    let has = |(_, theirs): &&(Permissions, zk::Permission)| acl.permission().has(*theirs);
    let bits = EACH.iter().filter(has).fold(0, |bits, (ours, _)| bits | ours.0);
    (acl.scheme().to_owned(), acl.id().to_owned(), bits)
}

impl BitOr for Permissions {
    type Output = Permissions;
    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}

impl Acl {
    pub(super) fn to_client(&self) -> Vec<zk::Acl> {
        let creator = || zk::Acl::new(zk::Permission::ALL, zk::AuthId::authed());
        match self {
            Acl::Open => vec![zk::Acl::new(zk::Permission::ALL, zk::AuthId::anyone())],
            Acl::CreatorAll => vec![creator()],
            Acl::ReadOnlyOthers => {
                vec![creator(), zk::Acl::new(zk::Permission::READ, zk::AuthId::anyone())]
            }
            Acl::Custom(entries) => entries.iter().map(AclEntry::to_client).collect(),
        }
    }
}

impl AclEntry {
    fn to_client(&self) -> zk::Acl {
        let id = zk::AuthId::new(&self.scheme, &self.id);
        zk::Acl::new(self.permissions.to_client(), id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_mean_the_same_to_the_client() {
        let some = Permissions::READ | Permissions::DELETE;
        assert_eq!(some.to_client(), zk::Permission::READ | zk::Permission::DELETE);
        assert_eq!(Permissions::ALL.to_client(), zk::Permission::ALL);
        assert!(Permissions::ALL.contains(some) && !some.contains(Permissions::WRITE));
    }
}
