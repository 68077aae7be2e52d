//! Names and what is filled into them.

use std::sync::Arc;

use zklock::{ErrorKind, LockError, LockName, lock_name, zk_locked};

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

const ORDERS: &str = "orders/all";

mod shared {
    pub(super) const NAME: &str = "shared";
}

#[zk_locked(ORDERS)]
async fn by_constant() -> Locked<()> {
    pause().await;
    Ok(())
}

#[zk_locked(shared::NAME, namespace = "eu", key = id)]
fn by_path(id: u8) -> Locked<u8> {
    Ok(id)
}

trait Named {
    const NAME: &'static str;
}

impl Named for User {
    const NAME: &'static str = "user";
}

#[zk_locked(T::NAME)]
fn by_type<T: Named>() -> Locked<()> {
    Ok(())
}

impl User {
    const LOCK: &'static str = "users";

    #[zk_locked(Self::LOCK)]
    async fn by_own_constant(&self) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    fn named(&self) -> Result<LockName, LockError> {
        lock_name!("me/{self.id}/{self.names.0}")
    }

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
fn a_constant_is_a_name() {
    wait(by_constant()).unwrap();
    by_path(3).unwrap();
    by_type::<User>().unwrap();
    wait(request().user.by_own_constant()).unwrap();
    assert_eq!(acquired(), ["orders/all", "eu/shared/3", "user", "users"]);
}

macro_rules! name_of {
    ($value:ident) => {{
        let value = 1;
        lock_name!("of/{value}", key = $value)
    }};
}

#[test]
fn a_name_by_itself_follows_the_same_rules() {
    let text = |name: Result<LockName, LockError>| name.unwrap().as_str().to_owned();
    let (Request { user, r#type }, namespace) = (request(), String::from("eu"));
    assert_eq!(text(lock_name!("orders/create")), "orders/create");
    assert_eq!(text(lock_name!("braces/{{{namespace}}}/{{id}}")), "braces/{eu}/{id}");
    assert_eq!(text(lock_name!("{r#type}/{user.id}-{user.names.1}")), "gift/7-L~2Fx");
    assert_eq!(text(lock_name!("{type}")), text(lock_name!("{ r#type }")));
    assert_eq!(text(lock_name!("orders", key = user.id + 1,)), "orders/8");
    assert_eq!(text(lock_name!("orders/{user.id}", namespace = "eu/shop")), "eu/shop/orders/7");
    assert_eq!(text(lock_name!("a", key = user.id, namespace = namespace)), "eu/a/7");
    assert_eq!(text(lock_name!(ORDERS)), ORDERS);
    assert_eq!(text(lock_name!(ORDERS, crate = ::zklock)), ORDERS);
    assert_eq!(text(user.named()), "me/7/Ada");
    // By hygiene a name means what it means where it is written.
    let value = 2;
    assert_eq!(text(name_of!(value)), "of/1/2");
    let empty = "";
    let error = lock_name!("orders/{empty}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

#[test]
fn a_value_that_cannot_be_filled_in_is_the_functions_error() {
    let error = keywords("", 0, 'x');
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidName);
    assert!(acquired().is_empty());
}
