use zklock::{LockError, zk_locked};

struct Prices {
    last: f64,
}

impl Prices {
    #[zk_locked("prices", on_busy = |_| Ok(self.last))]
    async fn shared(&self) -> Result<f64, LockError> {
        Ok(self.last)
    }

    #[zk_locked("prices", on_busy = |_| Ok(self.last))]
    async fn exclusive(&mut self) -> Result<f64, LockError> {
        self.last += 1.0;
        Ok(self.last)
    }
}

fn main() {
    let mut prices = Prices { last: 1.0 };
    let _ = prices.shared();
    let _ = prices.exclusive();
}
