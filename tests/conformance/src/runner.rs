//! Running the cases.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::cases;
use super::harness::Harness;
use super::lab::Lab;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name, which says what is expected.
    pub name: &'static str,
    /// The case itself.
    #[doc(hidden)]
    pub run: for<'a> fn(&'a Lab) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

macro_rules! list {
    ([] $($name:ident)*) => {
        /// Returns all cases.
        pub fn all() -> Vec<Case> {
            vec![$(Case { name: stringify!($name), run: |lab| Box::pin(cases::$name(lab)) }),*]
        }
    };
}
crate::conformance_cases!([list] []);

/// Runs one case.
///
/// # Panics
///
/// Panics if there is no such case, or the coordinator does not conform.
pub fn run(name: &str, harness: Arc<dyn Harness>) {
    let case = all().into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name:?}"));
    futures_lite::future::block_on(async {
        let lab = Lab::new(harness).await;
        (case.run)(&lab).await;
    });
}

/// Makes a `#[test]` of every case. The expression is evaluated in each, and has the type
/// `Arc<dyn Harness>`.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::conformance_cases!([$crate::conformance_test][$harness]);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test {
    ([$harness:expr] $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::run(stringify!($name), $harness);
        })*
    };
}
