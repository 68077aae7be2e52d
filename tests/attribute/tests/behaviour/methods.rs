//! Methods, with `self` in all its forms, in impl blocks and in traits.

use std::{future::Future, pin::Pin, rc::Rc, sync::Arc};

use zklock::zk_locked;

use crate::support::{Locked, acquired, pause, wait};

#[derive(Clone, Default)]
struct Shop {
    tenant: String,
    sold: Vec<u32>,
}

impl Shop {
    #[zk_locked("by_ref")]
    fn by_ref(&self) -> Locked<&str> {
        Ok(&self.tenant)
    }

    #[zk_locked("by_mut")]
    fn by_mut(&mut self, n: u32) -> Locked<&mut Vec<u32>> {
        self.sold.push(n);
        Ok(&mut self.sold)
    }

    #[zk_locked("by_mut_async")]
    async fn by_mut_async(&mut self, n: u32) -> Locked<&mut Vec<u32>> {
        pause().await;
        self.sold.push(n);
        Ok(&mut self.sold)
    }

    #[zk_locked("reborrowed")]
    fn reborrowed(&mut self) -> Locked<&mut u32> {
        if let Some(first) = self.sold.first_mut() {
            *first += 1;
        }
        let sold = &mut self.sold;
        Ok(&mut sold[0])
    }

    #[zk_locked("by_value")]
    fn by_value(mut self) -> Locked<Self> {
        self.sold.clear();
        Ok(self)
    }

    #[zk_locked("by_value_async")]
    async fn by_value_async(mut self) -> Locked<Self> {
        self.sold.clear();
        pause().await;
        Ok(self)
    }

    #[zk_locked("boxed")]
    fn boxed(self: Box<Self>) -> Locked<Vec<u32>> {
        Ok(self.sold)
    }

    #[zk_locked("counted")]
    async fn counted(self: Arc<Self>) -> Locked<usize> {
        pause().await;
        Ok(Arc::strong_count(&self))
    }

    #[zk_locked("not_send")]
    async fn not_send(self: Rc<Self>) -> Locked<usize> {
        pause().await;
        Ok(Rc::strong_count(&self))
    }

    #[zk_locked("pinned")]
    async fn pinned(mut self: Pin<&mut Self>) -> Locked<usize> {
        pause().await;
        self.sold.push(9);
        Ok(self.sold.len())
    }

    #[zk_locked("associated")]
    pub(crate) fn associated(tenant: &str) -> Locked<Self> {
        Ok(Self { tenant: tenant.to_owned(), sold: vec![] })
    }
}

trait Store {
    const KIND: &'static str;

    fn id(&self) -> u32;

    #[zk_locked("default")]
    fn default(&self) -> Locked<String> {
        Ok(format!("{} {}", Self::KIND, self.id()))
    }

    #[zk_locked("default_async")]
    async fn default_async(&self) -> Locked<String>
    where
        Self: Sized,
    {
        pause().await;
        Ok(format!("{} {}", Self::KIND, self.id()))
    }

    async fn native(&mut self, by: u32) -> Locked<u32>;

    fn explicit(&self) -> impl Future<Output = Locked<u32>> + Send;
}

impl Store for Shop {
    const KIND: &'static str = "shop";

    fn id(&self) -> u32 {
        1
    }

    #[zk_locked("native-{by}")]
    async fn native(&mut self, by: u32) -> Locked<u32> {
        self.sold.push(by);
        pause().await;
        Ok(by)
    }

    #[zk_locked("explicit-{self.tenant}")]
    async fn explicit(&self) -> Locked<u32> {
        pause().await;
        Ok(self.id())
    }
}

/// Options that speak of the type and its parameters.
struct Shelf<T, const TRIES: u32> {
    name: String,
    kept: Vec<T>,
}

impl<T: Clone + std::fmt::Display, const TRIES: u32> Shelf<T, TRIES> {
    const WAIT: std::time::Duration = std::time::Duration::from_secs(3);

    #[zk_locked("{self.name}", key = value, timeout = Self::WAIT, retries = TRIES)]
    async fn put<'a>(&'a mut self, value: T) -> Locked<&'a T>
    where
        T: Send,
    {
        pause().await;
        self.kept.push(value);
        Ok(&self.kept[self.kept.len() - 1])
    }

    #[zk_locked("{self.name}", mode = semaphore(TRIES), retries = self.tries())]
    fn copies<U>(self: &Arc<Self>, of: impl Fn(&T) -> U) -> Locked<Vec<U>>
    where
        U: 'static,
    {
        Ok(self.kept.iter().map(of).collect())
    }

    fn tries(&self) -> u32 {
        TRIES + u32::from(!self.kept.is_empty())
    }
}

#[test]
fn methods_of_generic_types_take_their_lock() {
    let mut shelf = Shelf::<u8, 2> { name: "a".to_owned(), kept: Vec::new() };
    assert_eq!(wait(shelf.put(7)).unwrap(), &7);
    assert_eq!(Arc::new(shelf).copies(ToString::to_string).unwrap(), vec!["7".to_owned()]);
    assert_eq!(acquired(), ["a/7 timeout: 3s, retries: 2", "a Semaphore { limit: 2 } retries: 3"]);
}

#[test]
fn methods_of_every_shape_take_their_lock() {
    let mut shop = Shop::associated("a").unwrap();
    assert_eq!(shop.by_ref().unwrap(), "a");
    shop.by_mut(1).unwrap().push(2);
    wait(shop.by_mut_async(3)).unwrap().push(4);
    *shop.reborrowed().unwrap() += 1;
    assert_eq!(shop.sold, [3, 2, 3, 4]);
    assert_eq!(wait(Pin::new(&mut shop).pinned()).unwrap(), 5);
    assert!(shop.clone().by_value().unwrap().sold.is_empty());
    assert!(wait(shop.clone().by_value_async()).unwrap().sold.is_empty());
    assert_eq!(Box::new(shop.clone()).boxed().unwrap().len(), 5);
    assert_eq!(wait(Arc::new(shop.clone()).counted()).unwrap(), 1);
    assert_eq!(wait(Rc::new(shop.clone()).not_send()).unwrap(), 1);
    assert_eq!(Store::default(&shop).unwrap(), "shop 1".to_owned());
    assert_eq!(wait(shop.default_async()).unwrap(), "shop 1".to_owned());
    assert_eq!(wait(shop.native(8)).unwrap(), 8);
    assert_eq!(wait(shop.explicit()).unwrap(), 1);
    let expected = "associated by_ref by_mut by_mut_async reborrowed pinned by_value \
        by_value_async boxed counted not_send default default_async native-8 explicit-a";
    assert_eq!(acquired().join(" "), expected);
}
