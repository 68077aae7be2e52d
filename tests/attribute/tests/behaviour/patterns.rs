//! What a pattern in the parameters binds can be named by the options, in a format, too.

#![allow(clippy::needless_pass_by_value, clippy::toplevel_ref_arg, clippy::let_unit_value)]
#![allow(clippy::trivially_copy_pass_by_ref)]

use std::fmt::Display;

use zklock::zk_locked;

use crate::support::{Locked, acquired, wait};

struct Json<T>(T);

#[derive(Clone, Copy)]
struct Pair {
    left: u32,
    right: u32,
}

const PAIR: Pair = Pair { left: 1, right: 2 };

fn add(of: &[&dyn Display]) -> String {
    of.iter().map(ToString::to_string).collect()
}

/// The same pattern in a plain function, an async one, and one inside `#[async_trait]`.
macro_rules! patterns {
    ($($name:ident($value:expr => [$($pat:tt)*]: $ty:ty) $literal:literal [$($key:tt)*] $body:expr;)*) => {
        mod plain {
            use super::*;

            $(#[zk_locked($literal, key = $($key)*)]
            pub(super) fn $name($($pat)*: $ty) -> Locked<String> {
                Ok($body)
            })*
        }

        mod asynchronous {
            use super::*;

            $(#[zk_locked($literal, key = $($key)*)]
            pub(super) async fn $name($($pat)*: $ty) -> Locked<String> {
                Ok($body)
            })*
        }

        #[async_trait::async_trait]
        trait Service {
            $(async fn $name(&self, value: $ty) -> Locked<String>;)*
        }

        #[async_trait::async_trait]
        impl Service for u32 {
            $(#[zk_locked($literal, key = $($key)*)]
            async fn $name(&self, $($pat)*: $ty) -> Locked<String> {
                Ok($body)
            })*
        }

        #[test]
        fn every_pattern_binds_names_for_every_kind_of_function() {
            $({
                let plain = (plain::$name($value).unwrap(), acquired());
                let asynchronous = (wait(asynchronous::$name($value)).unwrap(), acquired());
                let inside = (wait(Service::$name(&7, $value)).unwrap(), acquired());
                assert!(plain.1 == asynchronous.1 && plain == inside, "{}", stringify!($name));
                assert_eq!(plain.1, [format!("{}/{}", stringify!($name), plain.0)]);
            })*
        }
    };
}

patterns! {
    tuple((1, 2) => [(left, right)]: (u32, u32))
        "tuple" [format!("{left}{right:?}")] format!("{left}{right}");
    tuple_in_part((1, String::new()) => [(left, _)]: (u32, String))
        "tuple_in_part" [format!("{left}")] format!("{left}");
    tuple_with_rest((1, 2, String::new()) => [(left, ..)]: (u32, u32, String))
        "tuple_with_rest" [format!(r"{left}")] format!("{left}");
    changed((1, String::new()) => [(mut left, _)]: (u32, String))
        "changed" [format!("{left}")] { left += 0; format!("{left}") };
    structure(PAIR => [Pair { left, right }]: Pair)
        "structure" [format!("{left}{right}")] format!("{left}{right}");
    structure_in_part(PAIR => [Pair { left, .. }]: Pair)
        "structure_in_part" [format!("{left}")] format!("{left}");
    other_names(PAIR => [Pair { left: one, right: two }]: Pair)
        "other_names" [format!("{one}{0}", two)] format!("{one}{two}");
    by_reference(PAIR => [Pair { ref left, .. }]: Pair)
        "by_reference" [format!("{left}")] format!("{left}");
    reference(&PAIR => [&Pair { left, .. }]: &Pair)
        "reference" [format!("{left}")] format!("{left}");
    through_a_reference(&PAIR => [Pair { left, .. }]: &Pair)
        "through_a_reference" [format!("{left}")] format!("{left}");
    whole(PAIR => [whole @ Pair { .. }]: Pair)
        "whole" [format!("{}", whole.left)] format!("{}", whole.left);
    inner(Json(PAIR) => [Json(pair @ Pair { left, .. })]: Json<Pair>)
        "inner" [format!("{left}{}", pair.right)] format!("{left}{}", pair.right);
    nested((Json(PAIR), [3, 4]) => [(Json(Pair { left, .. }), [_, last])]: (Json<Pair>, [u32; 2]))
        "nested" [format!("{left}{last}")] format!("{left}{last}");
    slice([1, 2, 3] => [[first, .., last]]: [u32; 3])
        "slice" [format!("{first}{last}")] format!("{first}{last}");
    tail([1, 2, 3] => [[first, rest @ ..]]: [u32; 3])
        "tail" [format!("{first}{}", rest[1])] format!("{first}{}", rest[1]);
    either(Ok(1) => [(Ok(n) | Err(n))]: Result<u32, u32>)
        "either" [format!("{n}")] format!("{n}");
    aligned((1, 3) => [(n, width)]: (u32, usize))
        "aligned" [format!("{n:0>width$}")] format!("{n:0>width$}");
    function((1, 2, ' ') => [(left, right, _)]: (u32, u32, char))
        "function" [add(&[&left, &right])] add(&[&left, &right]);
    in_the_name((1, ' ') => [(left, _)]: (u32, char))
        "in_the_name/{left}" [left] format!("{left}/{left}");
}
