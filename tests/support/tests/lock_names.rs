//! The reference implementations of the lock-name rule, in Java and Python, against its vectors.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, process};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

/// An empty folder of this process.
fn scratch(label: &str) -> PathBuf {
    let name = format!("lock-names-{label}-{}", process::id());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Checks the program against the vectors, and that it notices one that is wrong.
fn check(label: &str, command: impl Fn() -> Command) {
    let right = vectors().join("lock-names.json");
    let text = fs::read_to_string(&right).unwrap();
    let count = text.matches("{\"name\"").count() + text.matches("{\"parts\"").count();
    let run = |file: &Path| {
        let output = command().arg(file).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (passed, said) = run(&right);
    assert!(passed && said.contains(&format!("{count} vectors, 0 wrong")), "{said}");

    let dir = scratch(label);
    for (from, to) in [
        ("/zklock/orders/007", "/zklock/orders/~3007"),
        ("\"error\": \"reserved\"", "\"path\": \"/zklock/a/locks\""),
        ("\"length\": 1024", "\"length\": 1023"),
    ] {
        assert!(text.contains(from), "{from}");
        let file = dir.join("wrong.json");
        fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let (passed, said) = run(&file);
        assert!(!passed && said.contains("wrong: "), "{from}: {said}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn java_makes_the_names_of_the_vectors() {
    let classes = scratch("classes");
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all", "-Werror", "-encoding", "UTF-8", "-d"]).arg(&classes);
    javac.args(["LockNames.java", "CheckLockNames.java"].map(|file| vectors().join(file)));
    let compiled = javac.output().expect("javac; apt-get install default-jdk-headless");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    check("java", || {
        let mut java = Command::new("java");
        java.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(&classes).arg("CheckLockNames");
        java
    });
    fs::remove_dir_all(classes).unwrap();
}

#[test]
fn python_makes_the_names_of_the_vectors() {
    check("python", || {
        let mut python = Command::new("python3");
        python.env("PYTHONDONTWRITEBYTECODE", "1").arg(vectors().join("check_lock_names.py"));
        python
    });
}
