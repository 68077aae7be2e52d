use zklock::lock_name;

fn main() {
    let id = 7;
    let _ = lock_name!("orders/{}");
    let _ = lock_name!("orders/{id:x}");
    let _ = lock_name!("orders/{id + 1}");
    let _ = lock_name!("orders/{id");
    let _ = lock_name!("orders/id}");
}
