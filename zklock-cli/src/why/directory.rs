//! What is wrong with the directory of a lock.

use std::collections::BTreeSet;

use zklock::{AclEntry, ContenderInfo, Mode, Permissions};

use crate::text::printable;
use crate::why::problems::{Facts, Problem};
use crate::why::view::Queue;

/// From here on zklock refuses a lock: 2³¹ − 2²⁰.
const LAST_NUMBER: i64 = (1 << 31) - (1 << 20);
/// So many numbers before, it is time to act: half a day at a thousand locks a second.
const NEAR: i64 = 43_200_000;

/// Who has a permission. Of a digest, only the user is told.
fn who_may<'e>(acl: impl IntoIterator<Item = &'e AclEntry>, what: Permissions) -> Vec<String> {
    let may = acl.into_iter().filter(|entry| entry.permissions.contains(what));
    let who = may.map(|entry| match &*entry.scheme {
        // A hash follows.
        "digest" => format!("digest:{}", entry.id.split(':').next().unwrap_or_default()),
        scheme => format!("{scheme}:{}", entry.id),
    });
    who.collect()
}

/// The list as `setAcl` reads it, in which whoever may create nodes may delete them, too. Nothing, if nobody may create, or
/// if such a list is not to be printed: a hash is a secret, those without ADMIN see an `x` in its place, and an entry with
/// a comma would be read as two.
fn with_delete(acl: &[AclEntry]) -> Option<String> {
    let letters = |granted: Permissions| {
        let each = [
            ('c', Permissions::CREATE),
            ('d', Permissions::DELETE),
            ('r', Permissions::READ),
            ('w', Permissions::WRITE),
            ('a', Permissions::ADMIN),
        ];
        let has = each.into_iter().filter(|(_, one)| granted.contains(*one));
        has.map(|(letter, _)| letter).collect::<String>()
    };
    let is_known = |entry: &AclEntry| {
        ["world", "ip", "sasl", "x509"].contains(&&*entry.scheme)
            && !entry.id.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control())
    };
    let creates = |entry: &AclEntry| entry.permissions.contains(Permissions::CREATE);
    if !acl.iter().all(is_known) || !acl.iter().any(creates) {
        return None;
    }
    let entries = acl.iter().map(|entry| {
        let granted = match creates(entry) {
            true => entry.permissions | Permissions::DELETE,
            false => entry.permissions,
        };
        format!("{}:{}:{}", entry.scheme, entry.id, letters(granted))
    });
    Some(entries.collect::<Vec<_>>().join(","))
}

impl Queue {
    /// Who alone may delete nodes in the directory, if somebody may and not everybody.
    pub(super) fn only_deletes(&self) -> Option<(&str, String)> {
        let who = who_may(self.survey.acl.iter().flatten(), Permissions::DELETE);
        let some = !who.is_empty() && !who.iter().any(|who| who == "world:anyone");
        some.then(|| (&*self.path, printable(&who.join(" and "))))
    }
}

impl Facts<'_> {
    /// The directory of a queue: its numbers, who may delete in it, and what does not belong there.
    pub(super) fn of_directory(&self, queue: &Queue) -> Vec<Problem> {
        let (mut problems, survey, path) = (Vec::new(), &queue.survey, &queue.path);
        let left = LAST_NUMBER - survey.next_number;
        if left < NEAR {
            let what = match left {
                ..=0 => "zklock refuses the lock from now on".to_owned(),
                left => format!("zklock refuses the lock after {left} more"),
            };
            let says = format!(
                "The numbers of the nodes in {path} are near their end: the next one is {}, and \
                 ZooKeeper counts to 2147483647 and then repeats itself, so {what}. The numbers begin \
                 again when the directory is deleted, which needs a moment at which nobody holds the \
                 lock or waits for it.{}",
                survey.next_number,
                self.credentials()
            );
            problems.push(Problem::new("numbers", says, vec![self.zk_cli(&["delete", path])]));
        }
        if let Some(acl) = &survey.acl
            && !acl.iter().any(|entry| entry.permissions.contains(Permissions::DELETE))
        {
            problems.push(self.refused(queue, acl));
        }
        let counted: BTreeSet<_> =
            survey.queue.iter().filter_map(|one| one.why.as_deref()).collect();
        for why in counted {
            let mut says = format!(
                "A client in another language waits for a node that is not in the queue: {why}. \
                 Perhaps it is the directory of another lock, whose name begins with this one's: then rename \
                 one of them, and delete the node when it is empty."
            );
            let named = |child: &&String| why.contains(&format!("{path}/{child},"));
            let named = survey.strangers.iter().find(named);
            let helps = named.map(|child| self.zk_cli(&["delete", &format!("{path}/{child}")]));
            says += &helps.as_ref().map_or_else(String::new, |_| self.credentials());
            problems.push(Problem::new("stranger", says, helps.into_iter().collect()));
        }
        problems
    }

    /// A directory with this list, in which nobody may delete.
    fn refused(&self, queue: &Queue, acl: &[AclEntry]) -> Problem {
        let path = &queue.path;
        let says = format!(
            "The access control list of {path} lets nobody delete nodes in it, so no holder can \
             release the lock: its node goes only with its session, when its process ends."
        );
        let Some(entries) = with_delete(acl) else {
            let who = match &*who_may(acl, Permissions::CREATE) {
                [] => "those who take the lock (nobody may even create nodes in it)".to_owned(),
                who => printable(&who.join(" and ")),
            };
            let hashes = match acl.iter().any(|entry| entry.scheme == "digest") {
                true => {
                    " No command is printed, for the list has hashes of passwords. ZooKeeper shows them only to \
                     who has the permission ADMIN on the node (here with ZKLOCK_AUTH, in zkCli.sh after \
                     `addauth`), and to others an `x`: a list that is written back with `x` locks everybody out."
                }
                false => "",
            };
            let says = format!(
                "{says} Give DELETE (the letter `d`) on {path} to {who}.{hashes} With credentials that have the \
                 permission ADMIN, call `getAcl {path}` in zkCli.sh, and then `setAcl {path}` with each entry \
                 that it shows, and the `d`. Then call `zklock why` again, for a holder that has tried to release \
                 already may not try again.{}",
                self.credentials()
            );
            return Problem::new("refused", says, Vec::new());
        };
        let says = format!(
            "{says} Allow it; a holder that has tried to release already may not try again.{}",
            self.credentials()
        );
        let allow = self.zk_cli(&["setAcl", path, &entries]);
        // A holder that has tried may not try again.
        let breaks = queue.holders().map(|one| format!("{allow} && {}", self.breaks(one)));
        let helps = std::iter::once(allow.clone()).chain(breaks).collect();
        Problem::new("refused", says, helps)
    }

    /// Users that do not exclude each other.
    pub(super) fn of_kinds(&self) -> Vec<Problem> {
        let users: Vec<_> = self.queues.iter().filter(|queue| !queue.inner).collect();
        let users: Vec<_> =
            users.into_iter().filter(|queue| !queue.survey.queue.is_empty()).collect();
        let mut kinds = Vec::new();
        for queue in &users {
            let kind = |one: &&ContenderInfo| match one.mode {
                Mode::Permit => "a semaphore",
                Mode::Mutex => "a mutex",
                _ => "a read/write lock",
            };
            let curator = queue.layout.starts_with("Curator");
            let kinds_here: BTreeSet<_> =
                queue.survey.queue.iter().collect::<Vec<_>>().iter().map(kind).collect();
            // Two kinds in one queue: zklock makes them wait for each other, but Curator does not.
            let foreign = queue.survey.queue.iter().any(|one| one.owner.pid.is_none());
            if kinds_here.len() < 2 || (curator && foreign) {
                kinds.extend(kinds_here.iter().map(|kind| format!("{kind} ({})", queue.layout)));
            } else {
                kinds.push(format!("a lock ({})", queue.layout));
            }
        }
        if kinds.len() < 2 {
            return Vec::new();
        }
        let says = format!(
            "{} is in use as {}: they do not exclude each other, so two may be inside at the same \
             time, and one may wait for nodes that are not its own. Give one of them another name.",
            self.name,
            kinds.join(" and as ")
        );
        let last = users.last().filter(|_| users.len() > 1);
        let others = match last {
            Some(last) => last.survey.queue.iter().collect::<Vec<_>>(),
            None => users[0].survey.queue.iter().filter(|one| one.owner.pid.is_none()).collect(),
        };
        let helps = others.into_iter().map(|one| self.breaks(one)).collect();
        vec![Problem::new("kinds", says, helps)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::example::{facts, queue};
    use zklock::Survey;

    const SEES: Permissions = Permissions::READ;

    fn takes() -> Permissions {
        SEES | Permissions::CREATE | Permissions::WRITE
    }

    fn list(entries: &[(&str, &str, Permissions)]) -> Vec<AclEntry> {
        let entry = |&(scheme, id, permissions): &(&str, &str, Permissions)| AclEntry {
            scheme: scheme.to_owned(),
            id: id.to_owned(),
            permissions,
        };
        entries.iter().map(entry).collect()
    }

    /// What is said of a directory with this list, and which commands help.
    fn told(acl: Vec<AclEntry>) -> (String, Vec<String>) {
        let mut survey = Survey::default();
        survey.acl = Some(acl);
        let mut problems = facts(&[], &[], "zk1:2181").of_directory(&queue(survey));
        assert_eq!((problems.len(), problems[0].code), (1, "refused"));
        let Problem { says, helps, .. } = problems.remove(0);
        (says, helps)
    }

    /// Whoever only looks at the directory shall not free the locks of others.
    #[test]
    fn only_who_may_create_nodes_is_given_the_right_to_delete_them() {
        let all = list(&[("ip", "10.0.0.0/8", takes()), ("world", "anyone", SEES)]);
        assert_eq!(with_delete(&all).unwrap(), "ip:10.0.0.0/8:cdrw,world:anyone:r");
        let (says, helps) = told(all);
        let command =
            "zkCli.sh -server zk1:2181 setAcl /zklock/a ip:10.0.0.0/8:cdrw,world:anyone:r";
        assert_eq!(helps, [command]);
        assert!(says.contains("lets nobody delete nodes in it"), "{says}");
        let admin = list(&[("sasl", "app", takes() | Permissions::ADMIN)]);
        assert_eq!(with_delete(&admin).unwrap(), "sasl:app:cdrwa");
    }

    /// `x` is what a server shows to those without ADMIN.
    #[test]
    fn a_list_with_a_hash_is_told_in_words() {
        for hash in ["x", "4S2D5ScO9Q/BzAlQ7ICIjlqkJhs="] {
            let id = format!("app:{hash}");
            let entries = [("digest", &*id, takes()), ("world", "anyone", SEES)];
            assert_eq!(with_delete(&list(&entries)), None);
            let (says, helps) = told(list(&entries));
            assert_eq!(helps, [""; 0]);
            assert!(
                says.contains("lets nobody delete nodes in it")
                    && says.contains("Give DELETE (the letter `d`) on /zklock/a to digest:app. ")
                    && says.contains("ZKLOCK_AUTH"),
                "{says}"
            );
            assert!(!says.contains(&id) && !says.contains("world:anyone"), "{says}");
        }
    }

    #[test]
    fn a_list_that_could_be_misread_or_helps_nobody_is_told_in_words() {
        // The entries of a list are separated by commas.
        let names = [("x509", "CN=app,O=shop", takes()), ("world", "anyone", SEES)];
        let (says, helps) = told(list(&names));
        assert_eq!(helps, [""; 0]);
        assert!(says.contains(" on /zklock/a to x509:CN=app,O=shop. "), "{says}");
        // What the id of another scheme is, is not known.
        assert_eq!(with_delete(&list(&[("token", "secret", takes())])), None);
        for nobody in [&[("world", "anyone", SEES)][..], &[]] {
            let (says, helps) = told(list(nobody));
            assert_eq!(helps, [""; 0]);
            assert!(says.contains(" to those who take the lock (nobody may even "), "{says}");
        }
    }
}
