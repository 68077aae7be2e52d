use zklock::lock_name;

fn main() {
    let orders = "orders";
    let _ = lock_name!(orders);
}
