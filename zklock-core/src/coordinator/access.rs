//! Who may do what with a node.

use std::ops::BitOr;

/// One entry of an access control list. Its fields are those of ZooKeeper, and stay.
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
}

impl BitOr for Permissions {
    type Output = Permissions;
    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}
