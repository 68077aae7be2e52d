//! What is wrong with the directory of a lock.

use std::collections::BTreeSet;

use zklock::{AclEntry, Mode, Participant, Permissions};

use crate::text::printable;
use crate::why::problems::{Facts, Problem};
use crate::why::view::Queue;

/// From here on zklock refuses a lock: 2³¹ − 2²⁰.
const LAST_NUMBER: i64 = (1 << 31) - (1 << 20);
/// So many numbers before, it is time to act: half a day at a thousand locks a second.
const NEAR: i64 = 43_200_000;

impl Queue {
    /// Who alone may delete nodes in the directory, if somebody may and not everybody.
    pub(super) fn only_deletes(&self) -> Option<(&str, String)> {
        let deletes = |entry: &&AclEntry| entry.permissions.contains(Permissions::DELETE);
        let who = |entry: &AclEntry| match &*entry.scheme {
            // A hash follows.
            "digest" => format!("digest:{}", entry.id.split(':').next().unwrap_or_default()),
            scheme => format!("{scheme}:{}", entry.id),
        };
        let who: Vec<_> = self.survey.acl.iter().flatten().filter(deletes).map(who).collect();
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
            let says = format!(
                "The access control list of {path} lets nobody delete nodes in it, so no holder can \
                 release the lock: its node goes only with its session, when its process ends. Allow it; a \
                 holder that has tried to release already may not try again.{}",
                self.credentials()
            );
            let letters = |granted: Permissions| {
                let each = [
                    ('c', Permissions::CREATE),
                    ('d', Permissions::DELETE),
                    ('r', Permissions::READ),
                    ('w', Permissions::WRITE),
                    ('a', Permissions::ADMIN),
                ];
                let granted = granted | Permissions::DELETE;
                let has = each.into_iter().filter(|(_, one)| granted.contains(*one));
                has.map(|(letter, _)| letter).collect::<String>()
            };
            let entries = acl.iter().map(|entry| {
                format!("{}:{}:{}", entry.scheme, entry.id, letters(entry.permissions))
            });
            let entries = entries.collect::<Vec<_>>().join(",");
            let allow = self.zk_cli(&["setAcl", path, &entries]);
            // A holder that has tried may not try again.
            let breaks = queue.holders().map(|one| format!("{allow} && {}", self.breaks(one)));
            let helps = std::iter::once(allow.clone()).chain(breaks).collect();
            problems.push(Problem::new("refused", says, helps));
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

    /// Users that do not exclude each other.
    pub(super) fn of_kinds(&self) -> Vec<Problem> {
        let users: Vec<_> = self.queues.iter().filter(|queue| !queue.inner).collect();
        let users: Vec<_> =
            users.into_iter().filter(|queue| !queue.survey.queue.is_empty()).collect();
        let mut kinds = Vec::new();
        for queue in &users {
            let kind = |one: &&Participant| match one.mode {
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
