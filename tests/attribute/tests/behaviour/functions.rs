//! Free functions.

use std::fmt::{Debug, Display};

use zklock::zk_locked;

use crate::support::{Locked, Text, acquired, pause, wait};

/// A documented function keeps its documentation.
#[zk_locked("plain")]
#[must_use = "kept"]
pub(crate) fn plain(a: u32, b: u32) -> Locked<u32> {
    Ok(a + b)
}

#[zk_locked("plain_async")]
pub(crate) async fn plain_async(a: u32, b: u32) -> Locked<u32> {
    pause().await;
    Ok(a + b)
}

#[zk_locked("generic")]
fn generic<T, const N: usize>(values: [T; N]) -> Locked<String>
where
    T: Debug + Clone,
{
    Ok(format!("{N} {:?}", values.to_vec()))
}

#[zk_locked("generic_async")]
async fn generic_async<T, const N: usize>(values: [T; N]) -> Locked<String>
where
    T: Debug + Clone,
{
    pause().await;
    Ok(format!("{N} {:?}", values.to_vec()))
}

#[zk_locked("lifetimes")]
fn lifetimes<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Locked<&'a str> {
    Ok(if a.is_empty() { b } else { a })
}

#[zk_locked("lifetimes_async")]
async fn lifetimes_async<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Locked<&'a str> {
    pause().await;
    Ok(if a.is_empty() { b } else { a })
}

#[zk_locked("exclusive")]
fn exclusive<'a>(map: &'a mut Vec<u32>, _other: &mut str) -> Locked<&'a mut u32> {
    map.push(1);
    Ok(&mut map[0])
}

#[zk_locked("exclusive_async")]
async fn exclusive_async<'a>(map: &'a mut Vec<u32>, _other: &mut str) -> Locked<&'a mut u32> {
    pause().await;
    map.push(1);
    Ok(&mut map[0])
}

#[zk_locked("opaque")]
fn opaque(text: impl Display + Clone, by: &impl Debug) -> Locked<impl Iterator<Item = String>> {
    let text = format!("{text} {by:?}");
    Ok(std::iter::repeat_n(text, 2))
}

#[zk_locked("opaque_async")]
async fn opaque_async(text: impl Display, by: &impl Debug) -> Locked<impl Iterator<Item = String>> {
    pause().await;
    let text = format!("{text} {by:?}");
    Ok(std::iter::repeat_n(text, 2))
}

#[zk_locked("closure")]
fn closure(f: impl FnOnce() -> u32, g: &mut dyn FnMut(u32)) -> Locked<Box<dyn Fn() -> u32>> {
    let value = f();
    g(value);
    Ok(Box::new(move || value))
}

/// # Safety
///
/// The pointer is valid.
#[zk_locked("danger")]
unsafe fn danger(pointer: *const u32) -> Locked<u32> {
    // SAFETY: see above.
    Ok(unsafe { *pointer })
}

/// # Safety
///
/// The pointer is valid.
#[zk_locked("danger_async")]
async unsafe fn danger_async(pointer: *const u32) -> Locked<u32> {
    // SAFETY: see above.
    Ok(unsafe { *pointer })
}

#[zk_locked("callback")]
#[allow(improper_ctypes_definitions)]
extern "C" fn callback(value: u32) -> Result<u32, Text> {
    Ok(value)
}

#[zk_locked("recursive")]
fn recursive(depth: u32) -> Locked<u32> {
    if depth == 0 { Ok(0) } else { Ok(recursive(depth - 1)? + 1) }
}

#[zk_locked("recursive_async")]
async fn recursive_async(depth: u32) -> Locked<u32> {
    if depth == 0 { Ok(0) } else { Ok(Box::pin(recursive_async(depth - 1)).await? + 1) }
}

#[zk_locked("inner")]
fn inner() -> Locked<u32> {
    #![allow(clippy::items_after_statements, clippy::no_effect_underscore_binding)]
    let one = 1;
    const TWO: u32 = 2;
    fn three() -> u32 {
        3
    }
    Ok(one + TWO + three())
}

#[zk_locked("unit")]
fn unit() -> Locked<()> {
    Ok(())
}

#[zk_locked("unit_async")]
async fn unit_async() -> Locked<()> {
    Ok(())
}

#[test]
fn free_functions_of_every_shape_take_their_lock() {
    assert_eq!(plain(1, 2).unwrap(), 3);
    assert_eq!(wait(plain_async(1, 2)).unwrap(), 3);
    assert_eq!(generic([1, 2]).unwrap(), "2 [1, 2]".to_owned());
    assert_eq!(wait(generic_async(["x"])).unwrap(), "1 [\"x\"]".to_owned());
    assert_eq!(lifetimes("", "b").unwrap(), "b");
    assert_eq!(wait(lifetimes_async("a", "b")).unwrap(), "a");
    let mut map = Vec::new();
    *exclusive(&mut map, &mut String::new()).unwrap() = 7;
    *wait(exclusive_async(&mut map, &mut String::new())).unwrap() += 1;
    assert_eq!(map, [8, 1]);
    assert_eq!(opaque("a", &1).unwrap().count(), 2);
    assert_eq!(wait(opaque_async("a", &1)).unwrap().count(), 2);
    let mut seen = 0;
    assert_eq!(closure(|| 4, &mut |value| seen = value).unwrap()(), 4);
    assert_eq!(seen, 4);
    let value = 5;
    // SAFETY: the pointer comes from a reference.
    assert_eq!(unsafe { danger(&raw const value) }.unwrap(), 5);
    // SAFETY: the pointer comes from a reference.
    assert_eq!(wait(unsafe { danger_async(&raw const value) }).unwrap(), 5);
    let pointer: extern "C" fn(u32) -> Result<u32, Text> = callback;
    assert_eq!(pointer(6).unwrap(), 6);
    assert_eq!(recursive(2).unwrap(), 2);
    assert_eq!(wait(recursive_async(2)).unwrap(), 2);
    assert_eq!(inner().unwrap(), 6);
    assert_eq!(unit().unwrap(), ());
    assert_eq!(wait(unit_async()).unwrap(), ());
    let expected = "plain plain_async generic generic_async lifetimes lifetimes_async exclusive \
        exclusive_async opaque opaque_async closure danger danger_async callback \
        recursive recursive recursive recursive_async recursive_async recursive_async \
        inner unit unit_async";
    assert_eq!(acquired().join(" "), expected);
}
