//! How an error reads: to the clients of a service, and to those who run it.

use std::error::Error;
use std::fmt;

use super::{Body, Inner, LockError};
use crate::base::error_kind::ErrorKind;

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, lock, detail, aside, holder, body, source } = &*self.0;
        let lock = lock.as_deref().unwrap_or("the lock");
        match kind {
            ErrorKind::Busy => {
                write!(f, "{lock} is being processed")?;
                if !f.alternate() {
                    return Ok(());
                }
                if let Some(holder) = holder {
                    write!(f, " by {}", holder.owner)?;
                    if holder.ahead > 1 {
                        write!(f, ", {} ahead", holder.ahead)?;
                    }
                }
                if !detail.is_empty() {
                    write!(f, " ({detail})")?;
                }
            }
            ErrorKind::Lost | ErrorKind::Revoked | ErrorKind::HeldTooLong => {
                let what = match kind {
                    ErrorKind::Lost => "lost",
                    ErrorKind::Revoked => "revoked",
                    _ => "held for too long",
                };
                write!(f, "{lock} was {what}: {detail}")?;
                f.write_str(match body {
                    None => "",
                    Some(Body::NotStarted) => "; the body did not run",
                    Some(Body::Dropped) => "; the body was dropped and may have taken effect",
                    Some(Body::Finished) => "; the body finished, and its result was discarded",
                })?;
            }
            _ if self.0.lock.is_some() => write!(f, "{lock}: {detail}")?,
            _ => f.write_str(detail)?,
        }
        if !f.alternate() {
            return Ok(());
        }
        if !aside.is_empty() {
            write!(f, ": {aside}")?;
        }
        let mut said = detail.clone();
        let mut cause = source.as_deref().map(|source| source as &(dyn Error + 'static));
        while let Some(error) = cause {
            let text = error.to_string();
            // What a cause has in common with what was printed last is not repeated.
            match text.strip_prefix(&*said) {
                Some(more) if more.starts_with(": ") => f.write_str(more)?,
                _ if said.ends_with(&text) => {}
                _ => write!(f, ": {text}")?,
            }
            (said, cause) = (text, error.source());
        }
        Ok(())
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, lock, detail, aside, holder, body, source } = &*self.0;
        let mut out = f.debug_struct("LockError");
        out.field("kind", kind).field("code", &kind.code()).field("lock", lock);
        out.field("detail", detail);
        if !aside.is_empty() {
            out.field("aside", aside);
        }
        if let Some(holder) = holder {
            out.field("holder", holder);
        }
        if let Some(body) = body {
            out.field("body", body);
        }
        if let Some(source) = source {
            out.field("source", source);
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Holder;
    use crate::base::owner::Owner;

    #[test]
    fn a_busy_error_reads_as_in_the_documents() {
        let error = LockError::new(ErrorKind::Busy, "").on("createOrder");
        assert_eq!(error.to_string(), "createOrder is being processed");
        assert_eq!(error.code(), "1011");
        assert!(error.is_busy() && !error.is_unavailable());
    }

    #[test]
    fn a_busy_error_names_the_holder_to_those_who_run_the_service() {
        let owner = Owner { host: "db7".into(), pid: Some(42), ..Owner::default() };
        let holder = Holder { owner, node: "n".into(), ahead: 3 };
        let error = LockError::new(ErrorKind::Busy, "").on("a").held_by(Some(holder));
        let error = error.detailed("it rests");
        assert_eq!(error.to_string(), "a is being processed");
        let told = "a is being processed by db7 (process 42), 3 ahead (it rests)";
        assert_eq!(format!("{error:#}"), told);
    }

    #[test]
    fn causes_and_asides_are_for_those_who_run_the_service() {
        let cause = std::io::Error::other("db7:2181 refused");
        let error = LockError::new(ErrorKind::Unavailable, "no answer").on("a");
        let error = error.aside("/zklock/a/n1").because(cause);
        assert_eq!(error.to_string(), "a: no answer");
        assert_eq!(format!("{error:#}"), "a: no answer: /zklock/a/n1: db7:2181 refused");
        // The same is not said twice.
        let error =
            LockError::new(ErrorKind::Unavailable, "no").because(std::io::Error::other("no"));
        assert_eq!(format!("{error:#}"), "no");
        let cause = std::io::Error::other("no server: db7:2181 refused");
        let error = LockError::new(ErrorKind::Unavailable, "no server").because(cause);
        assert_eq!(format!("{error:#}"), "no server: db7:2181 refused");
    }

    #[test]
    fn a_lost_error_says_what_became_of_the_body() {
        let lost = LockError::new(ErrorKind::Lost, "its lease ran out").on("a");
        assert!(
            lost.clone().with_body(Body::Dropped).to_string().contains("may have taken effect")
        );
        assert!(lost.with_body(Body::Finished).to_string().contains("finished"));
    }

    #[test]
    fn a_revoked_error_is_no_lost_one_and_says_what_became_of_the_body() {
        let revoked = LockError::new(ErrorKind::Revoked, "somebody asked for it").on("a");
        let revoked = revoked.with_body(Body::Dropped);
        assert_eq!(
            revoked.to_string(),
            "a was revoked: somebody asked for it; the body was dropped and may have taken effect"
        );
        assert_eq!((revoked.code(), revoked.body()), ("1024", Some(Body::Dropped)));
        assert!(revoked.is_revoked() && !revoked.is_lost() && !revoked.is_permanent());
    }
}
