//! Notes the compiler and the options, which a failure is told with.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    let (rustc, target) = (rustc.unwrap_or_default(), variable("TARGET"));
    let (level, debug) = (variable("OPT_LEVEL"), variable("DEBUG"));
    println!("cargo::rustc-env=BUILT={rustc}, {target}, opt-level {level}, debug {debug}");
}
