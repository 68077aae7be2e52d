//! Names and what is filled into them.

use std::sync::Arc;

use zklock::{LockError, zk_locked};

use crate::support::{Locked, acquired, pause, wait};

struct User {
    id: u64,
    names: (String, &'static str),
}

struct Request {
    user: User,
    r#type: &'static str,
}

struct Json<T>(T);

fn request() -> Request {
    Request { user: User { id: 7, names: ("Ada".to_owned(), "L/x") }, r#type: "gift" }
}

#[zk_locked("order-{order_id}")]
fn argument(order_id: u64) -> Locked<()> {
    Ok(())
}

#[zk_locked(
    "users/{ request.user.id }/{request.user.names.0}-{request.user.names.1}/{request.type}"
)]
fn fields(request: &Request) -> Locked<()> {
    let _: &Request = request;
    Ok(())
}

#[zk_locked("moved/{request.user.id}/{request.user.names.0}")]
async fn moved(request: Request) -> Locked<String> {
    pause().await;
    Ok(request.user.names.0)
}

#[zk_locked("extracted/{request.user.id}")]
async fn extracted(Json(request): Json<Request>) -> Locked<Request> {
    pause().await;
    Ok(request)
}

#[zk_locked("partly/{id}")]
async fn partly(User { id, .. }: User) -> Locked<()> {
    pause().await;
    Ok(())
}

#[zk_locked("braces/{{{id}}}/{{id}}")]
fn braces(id: u8) -> Locked<()> {
    Ok(())
}

#[zk_locked("{r#type}-{_private}-{again}-{again}")]
#[allow(clippy::used_underscore_binding)]
fn keywords(r#type: &str, _private: u8, again: char) -> Locked<()> {
    Ok(())
}

#[zk_locked(r"raw\{id}")]
fn raw(id: u8) -> Locked<()> {
    Ok(())
}

impl User {
    #[zk_locked("me/{self.id}/{self.names.0}")]
    async fn by_value(self) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[zk_locked("arc/{self.id}")]
    async fn by_arc(self: Arc<Self>) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }
}

macro_rules! guarded {
    ($name:literal, $function:ident, $arg:ident) => {
        #[zk_locked($name)]
        fn $function($arg: u8) -> Locked<u8> {
            Ok($arg)
        }
    };
    ($function:ident) => {
        // The parameter is the macro's own, and so is the word in the name.
        #[zk_locked("hygiene-{id}")]
        async fn $function(id: u8) -> Locked<u8> {
            Ok(id)
        }
    };
}

guarded!("macro-{id}", by_macro, id);
guarded!(by_hygiene);

#[test]
fn values_are_filled_in() {
    argument(5).unwrap();
    fields(&request()).unwrap();
    wait(moved(request())).unwrap();
    wait(extracted(Json(request()))).unwrap();
    wait(partly(request().user)).unwrap();
    braces(1).unwrap();
    keywords("t", 0, 'x').unwrap();
    raw(3).unwrap();
    wait(request().user.by_value()).unwrap();
    wait(Arc::new(request().user).by_arc()).unwrap();
    by_macro(4).unwrap();
    wait(by_hygiene(5)).unwrap();
    let expected = [
        "order-5",
        "users/7/Ada-L~2Fx/gift",
        "moved/7/Ada",
        "extracted/7",
        "partly/7",
        "braces/{1}/{id}",
        "t-0-x-x",
        "raw\\3",
        "me/7/Ada",
        "arc/7",
        "macro-4",
        "hygiene-5",
    ];
    assert_eq!(acquired(), expected);
}

#[test]
fn a_value_that_cannot_be_filled_in_is_the_functions_error() {
    let error = keywords("", 0, 'x');
    assert_eq!(error, Err(LockError::BadName("a value is empty".to_owned())));
    assert!(acquired().is_empty());
}
