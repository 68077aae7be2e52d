//! The access control lists of the nodes that a session creates.

use zookeeper_client as zk;

use crate::coordinator::access::{AclEntry, Permissions};

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

const EACH: [(Permissions, zk::Permission); 5] = [
    (Permissions::READ, zk::Permission::READ),
    (Permissions::WRITE, zk::Permission::WRITE),
    (Permissions::CREATE, zk::Permission::CREATE),
    (Permissions::DELETE, zk::Permission::DELETE),
    (Permissions::ADMIN, zk::Permission::ADMIN),
];

/// An entry that a server returned.
pub(super) fn entry(acl: &zk::Acl) -> AclEntry {
    let has = |(_, theirs): &&(Permissions, zk::Permission)| acl.permission().has(*theirs);
    let all = EACH.iter().filter(has).map(|(ours, _)| *ours);
    let permissions = all.fold(Permissions::NONE, |all, one| all | one);
    AclEntry { scheme: acl.scheme().to_owned(), id: acl.id().to_owned(), permissions }
}

fn to_client(permissions: Permissions) -> zk::Permission {
    EACH.into_iter()
        .filter(|(ours, _)| permissions.contains(*ours))
        .fold(zk::Permission::NONE, |all, (_, theirs)| all | theirs)
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
            Acl::Custom(entries) => entries.iter().map(entry_to_client).collect(),
        }
    }
}

fn entry_to_client(entry: &AclEntry) -> zk::Acl {
    let id = zk::AuthId::new(&entry.scheme, &entry.id);
    zk::Acl::new(to_client(entry.permissions), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_mean_the_same_to_the_client() {
        let some = Permissions::READ | Permissions::DELETE;
        assert_eq!(to_client(some), zk::Permission::READ | zk::Permission::DELETE);
        assert_eq!(to_client(Permissions::ALL), zk::Permission::ALL);
        assert!(Permissions::ALL.contains(some) && !some.contains(Permissions::WRITE));
    }
}
