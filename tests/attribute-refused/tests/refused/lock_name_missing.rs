use zklock::lock_name;

fn main() {
    let _ = lock_name!();
}
