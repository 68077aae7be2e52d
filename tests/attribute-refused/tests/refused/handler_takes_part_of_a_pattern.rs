use zklock::zk_locked;

struct Path<T>(T);

#[derive(Debug)]
enum Failed {
    Order { id: u64 },
    Text(String),
}

#[zk_locked("orders/{id}", on_busy = |_| Ok(id + 1), map_err = |error| Failed::Text(format!("{error}: {id}")))]
async fn of_a_tuple(Path((id, _)): Path<(u64, String)>) -> Result<u64, Failed> {
    Ok(id)
}

#[async_trait::async_trait]
trait Orders {
    async fn cancel(&self, id: Path<u64>) -> Result<u64, Failed>;
}

#[async_trait::async_trait]
impl Orders for u8 {
    #[zk_locked("orders/{id}", map_err = |_| { let failed = Failed::Order { id }; failed })]
    async fn cancel(&self, Path(id): Path<u64>) -> Result<u64, Failed> {
        Ok(id)
    }
}

fn main() {}
