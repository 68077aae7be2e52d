use zklock::lock_name;

fn main() {
    let _ = lock_name!("orders" key = 1 + 1);
}
