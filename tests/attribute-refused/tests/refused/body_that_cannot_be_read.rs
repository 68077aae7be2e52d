use std::pin::Pin;

use zklock::{LockError, zk_locked};

macro_rules! guarded {
    ($name:ident, $result:ty, $step:stmt) => {
        #[zk_locked("order")]
        fn $name() -> $result {
            $step
            Box::pin(async move { Ok(id) })
        }
    };
}

macro_rules! repeated {
    ($label:lifetime) => {
        #[zk_locked("order")]
        fn repeated() -> impl Future<Output = Result<u32, LockError>> {
            $label: loop {
                break $label;
            }
            async move { Ok(1) }
        }
    };
}

type Work = Pin<Box<dyn Future<Output = Result<u32, LockError>>>>;

guarded!(boxed, Pin<Box<dyn Future<Output = Result<u32, LockError>>>>, let id: u32 = 1);
guarded!(hidden, Work, let id: u32 = 1);
repeated!('again);

fn main() {
    let _ = (boxed(), hidden(), repeated());
}
