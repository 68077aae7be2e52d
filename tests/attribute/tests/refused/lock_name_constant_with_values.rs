use zklock::lock_name;

const ORDERS: &str = "orders/{id}";

fn main() {
    let _ = lock_name!(ORDERS);
}
