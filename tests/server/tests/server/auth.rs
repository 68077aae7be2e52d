//! Credentials and access control lists.

use std::time::{Duration, Instant};

use zklock::{Acl, ErrorKind, SessionBuilder};

use crate::bed::{Bed, soon};

const SECRET: &str = "hunter2";

fn as_user(builder: SessionBuilder, user: &str) -> SessionBuilder {
    builder.auth("digest", format!("{user}:{SECRET}"))
}

fn assert_silent(text: &str) {
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains(&format!("{:?}", SECRET.as_bytes())[1..10]), "{text}");
}

#[tokio::test]
async fn credentials_that_the_server_refuses_are_an_error_of_their_own() {
    let bed = Bed::shared("wrong-auth");
    let limit = Duration::from_secs(5);
    let builder = bed.builder().connect_timeout(limit).auth("no-such-scheme", SECRET);
    assert_silent(&format!("{builder:?}"));
    let start = Instant::now();
    let error = builder.clone().connect().await.unwrap_err();
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unauthorized, "1015"), "{error}");
    assert!(error.to_string().contains("refused the credentials"), "{error}");
    assert!(error.is_permanent());
    assert_silent(&format!("{error} {error:?}"));
    // And to who acquires without having waited for the connection.
    let session = builder.open().unwrap();
    let error = soon("an error", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert_silent(&format!("{error} {error:?} {session:?}"));
    session.close().await;
    bed.end().await;
}

#[tokio::test]
async fn what_belongs_to_its_creator_shuts_everybody_else_out() {
    let bed = Bed::shared("creator-all");
    let private = bed.builder().acl(Acl::CreatorAll);
    let mine = bed.adopt(as_user(private.clone(), "me").connect().await.unwrap());
    let guard = mine.mutex("a").unwrap().acquire().await.unwrap();

    let strangers = [bed.builder(), as_user(private, "you")];
    for stranger in strangers {
        let stranger = bed.adopt(stranger.connect().await.unwrap());
        let mutex = stranger.mutex("a").unwrap();
        for error in [mutex.try_acquire().await, soon("an error", mutex.acquire()).await] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
            assert_eq!(error.lock(), Some("a"));
            assert_silent(&format!("{error} {error:?}"));
        }
        // Another lock below the same private root is none of theirs either.
        let other = stranger.mutex("b").unwrap();
        let error = soon("an error", other.acquire()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    }
    assert!(guard.is_valid());
    // A second session of the same user is let in.
    let again = as_user(bed.builder().acl(Acl::CreatorAll), "me");
    let again = bed.adopt(again.connect().await.unwrap());
    assert!(again.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    again.mutex("a").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn an_acl_that_needs_credentials_says_so_where_there_are_none() {
    let bed = Bed::shared("invalid-acl");
    let session = bed.adopt(bed.builder().acl(Acl::CreatorAll).connect().await.unwrap());
    let error = soon("an error", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    bed.end().await;
}
