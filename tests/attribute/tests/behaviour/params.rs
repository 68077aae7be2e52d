//! Parameters of every pattern.
#![allow(clippy::many_single_char_names, clippy::too_many_arguments)]
#![allow(clippy::trivially_copy_pass_by_ref)]

use zklock::zk_locked;

use crate::support::{Locked, acquired, pause, wait};

struct Json<T>(T);

struct Pair {
    left: String,
    right: String,
}

struct Unit;

#[zk_locked("patterns")]
#[allow(clippy::needless_pass_by_value, clippy::toplevel_ref_arg)]
fn patterns(
    Json(a): Json<String>,
    Pair { left: mut b, right: c }: Pair,
    (mut d, _): (u32, String),
    [e, ..]: [u32; 3],
    &f: &u32,
    ref g: String,
    _: String,
    mut h: String,
    Unit: Unit,
    (i, (j, k)): &(u32, (u32, u32)),
    whole @ Json(_): Json<u32>,
) -> Locked<String> {
    b.push('!');
    d += 1;
    h.push('?');
    let whole = whole.0;
    Ok(format!("{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}{k}{whole}"))
}

#[zk_locked("patterns_async")]
#[allow(clippy::needless_pass_by_value, clippy::toplevel_ref_arg)]
async fn patterns_async(
    Json(a): Json<String>,
    Pair { left: mut b, right: c }: Pair,
    (mut d, _): (u32, String),
    [e, ..]: [u32; 3],
    &f: &u32,
    ref g: String,
    _: String,
    mut h: String,
    Unit: Unit,
    (i, (j, k)): &(u32, (u32, u32)),
    whole @ Json(_): Json<u32>,
) -> Locked<String> {
    b.push('!');
    d += 1;
    pause().await;
    h.push('?');
    let whole = whole.0;
    Ok(format!("{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}{k}{whole}"))
}

#[zk_locked("attributes")]
fn attributes(
    #[allow(unused_variables)] a: u32,
    #[cfg(any())] b: Missing,
    #[cfg(not(any()))] c: u32,
    #[expect(unused_variables)] d: u32,
    _e: u32,
) -> Locked<u32> {
    Ok(c)
}

/// Each is unused in a part only.
#[zk_locked("expectations-{f}")]
async fn expectations(
    #[expect(unused_variables)] Pair { left: a, .. }: Pair,
    #[expect(unused_variables)] Json(Pair { left: b, right: c }): Json<Pair>,
    #[expect(unused_variables)] whole @ Json(_): Json<u32>,
    #[expect(unused_variables)] (e, f, _): (u32, u32, String),
) -> Locked<usize> {
    pause().await;
    Ok(b.len() + usize::from(f > 2))
}

#[zk_locked("underscores-{_id}")]
#[allow(clippy::used_underscore_binding)]
async fn underscores(_id: u32, __very: String) -> Locked<()> {
    Ok(())
}

#[test]
fn patterns_bind_as_they_did() {
    let s = |text: &str| text.to_owned();
    let pair = || Pair { left: s("b"), right: s("c") };
    let expected = s("ab!c234gh?6789");
    let tuple = (6, (7, 8));
    let answer = patterns(
        Json(s("a")),
        pair(),
        (1, s("x")),
        [3, 0, 0],
        &4,
        s("g"),
        s("_"),
        s("h"),
        Unit,
        &tuple,
        Json(9),
    );
    assert_eq!(answer.unwrap(), expected);
    let answer = wait(patterns_async(
        Json(s("a")),
        pair(),
        (1, s("x")),
        [3, 0, 0],
        &4,
        s("g"),
        s("_"),
        s("h"),
        Unit,
        &tuple,
        Json(9),
    ));
    assert_eq!(answer.unwrap(), expected);
    assert_eq!(attributes(1, 2, 3, 4).unwrap(), 2);
    let expected = expectations(pair(), Json(pair()), Json(1), (2, 3, s("")));
    assert_eq!(wait(expected).unwrap(), 2);
    wait(underscores(5, s(""))).unwrap();
    let taken = ["patterns", "patterns_async", "attributes", "expectations-3", "underscores-5"];
    assert_eq!(acquired(), taken);
}
