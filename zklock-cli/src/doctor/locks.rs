//! Whether a lock can be taken, who else may delete it, and whether its directory goes.

use std::env;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use zklock::layout::{Curator, Removed};
use zklock::{AclEntry, ErrorKind, Permissions, Session};

use crate::doctor::Check;
use crate::doctor::session::other_credentials;
use crate::exit::Failure;
use crate::server::{auth, has_certificate};
use crate::when::span;

/// The name of a lock that is taken for a moment. The directory of another process's may belong to
/// another user.
fn trial(what: &str) -> String {
    format!("zklock-doctor-{what}-{}", std::process::id())
}

/// How long it may take.
const TAKING: Duration = Duration::from_secs(5);
/// Servers look for empty directories each minute, unless they are told otherwise, and take a moment more where
/// there are many. One that is there for less tells nothing.
const REAPING: Duration = Duration::from_secs(90);
/// How often a directory is looked for.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes a lock, and looks at the access control lists. Returns whether a lock can be taken.
pub(super) async fn access(session: &Session) -> Result<(Vec<Check>, bool), Failure> {
    let user = auth();
    let root = session.root().as_str();
    let lock = session.mutex(trial("access"))?.with_driver(Removed::after(Curator));
    let guard = match lock.acquire_timeout(TAKING).await {
        Ok(guard) => guard,
        Err(error) if error.kind() == ErrorKind::Unauthorized => {
            return Ok((vec![refused(session, user.as_deref()).await], false));
        }
        Err(error) => return Err(error.into()),
    };
    let acl = session.root_acl().await?.unwrap_or_default();
    guard.release().await?;
    let changes = [Permissions::CREATE, Permissions::DELETE, Permissions::WRITE];
    let may = |entry: &AclEntry| changes.iter().any(|one| entry.permissions.contains(*one));
    let root_is_open = acl.iter().any(|entry| entry.scheme == "world" && may(entry));
    let locks_are_open = matches!(env::var("ZKLOCK_ACL").as_deref(), Err(_) | Ok("" | "open"));
    // Who asks for a certificate may do so for the network's sake.
    let is_nobody = user.is_none() && (locks_are_open || !has_certificate());
    let mut checks = vec![Check::well("auth", "a lock was taken and released")];
    checks.push(match (is_nobody, root_is_open, locks_are_open) {
        (true, ..) => Check::note(
            "acl",
            "everybody who reaches the servers may take and delete locks; ZKLOCK_AUTH and \
             ZKLOCK_ACL=creator change that",
        ),
        (false, _, true) => Check::wrong(
            "acl",
            "this client has credentials, but everybody may change what it creates",
            "ZKLOCK_ACL=creator, or read-only-others",
        ),
        (false, true, _) => Check::wrong(
            "acl",
            format!("this client has credentials, but everybody may change {root}"),
            match user {
                Some(_) => format!("zkCli.sh setAcl {root} auth::cdrwa, after addauth"),
                None => format!("zkCli.sh setAcl {root} auth::cdrwa, with the same certificate"),
            },
        ),
        (false, false, false) => Check::well(
            "acl",
            format!("only those with credentials may change {root} and its locks"),
        ),
    });
    Ok((checks, true))
}

/// Names the user, never the password.
async fn refused(session: &Session, auth: Option<&str>) -> Check {
    let root = session.root().as_str();
    let Some(auth) = auth else {
        let who = if has_certificate() { "to this certificate" } else { "without credentials" };
        let says = format!("the access control list of {root} denies access {who}");
        return Check::wrong("auth", says, other_credentials());
    };
    let mut words = auth.splitn(3, ':');
    let (scheme, user) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let acl = session.root_acl().await.ok().flatten().unwrap_or_default();
    let ids = acl.iter().filter(|entry| entry.scheme == scheme);
    let same = ids.filter_map(|entry| entry.id.split(':').next()).any(|known| known == user);
    let says = if same {
        format!("{root} belongs to {scheme}:{user} with another password: the digests differ")
    } else {
        format!(
            "the access control list of {root} denies access to {scheme}:{user}: it is another user, \
             or its password is another, so that the digests differ"
        )
    };
    Check::wrong("auth", says, other_credentials())
}

/// Whether the servers remove the empty directory of the lock that was taken.
pub(super) async fn containers(
    session: &Session,
    within: Option<Duration>,
) -> Result<Check, Failure> {
    let Some(within) = within else {
        let says = "not checked whether the servers remove empty directories, which takes a minute: \
                    zklock doctor --containers-within 2m";
        return Ok(Check::unchecked("containers", says));
    };
    let name = trial("container");
    session.mutex(&*name)?.acquire_timeout(TAKING).await?.release().await?;
    let site = session.site(&*name)?;
    let end = Instant::now() + within;
    let gone = async {
        // It has had a node, so its numbers are beyond the first while it is there.
        while site.survey().await?.next_number > 0 {
            sleep(PAUSE).await;
        }
        Ok::<(), Failure>(())
    };
    match timeout_at(end, gone).await {
        Ok(gone) => {
            gone.map(|()| Check::well("containers", "the servers remove empty directories"))
        }
        Err(_) if within < REAPING => Ok(Check::unchecked(
            "containers",
            format!(
                "not known whether the servers remove empty directories: one was there for {}, and \
                 servers look for them each minute: zklock doctor --containers-within 2m",
                span(within)
            ),
        )),
        Err(_) => Ok(Check::wrong(
            "containers",
            format!(
                "the servers did not remove an empty directory within {}: the directories of locks \
                 pile up, one for each name",
                span(within)
            ),
            "-Dznode.container.checkIntervalMs=60000 for the servers, which is the default",
        )),
    }
}
