use zklock::lock_name;

fn main() {
    let ids = vec![7];
    let _ = lock_name!("orders/{ids}");
}
