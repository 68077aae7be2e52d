//! Where Debian keeps Java, ZooKeeper and Curator.

use std::path::{Path, PathBuf};
use std::process::Command;

const JARS: &str = "/usr/share/java";
const INSTALL: &str = "install it with: apt-get install zookeeper libcurator-recipes-java \
                       default-jdk-headless";

/// Returns the class path of a ZooKeeper server.
///
/// `ZKLOCK_ZOOKEEPER_CLASSPATH` names another one, to run the suite on another version.
pub(crate) fn server_class_path() -> String {
    // slf4j-simple and not the default of Debian: a server that fails to start must say why.
    std::env::var("ZKLOCK_ZOOKEEPER_CLASSPATH")
        .unwrap_or_else(|_| class_path(&["slf4j-simple", "zookeeper"]))
}

/// Returns the class path of Curator, of which Debian has these jars.
///
/// `ZKLOCK_CURATOR_CLASSPATH` names another one, to run the suite beside another version.
pub(crate) fn curator_class_path(jars: &[&str]) -> String {
    std::env::var("ZKLOCK_CURATOR_CLASSPATH").unwrap_or_else(|_| class_path(jars))
}

/// Returns the jars of Netty, which a server needs for TLS; the manifest of ZooKeeper's jar does not
/// name all of them.
pub(crate) fn netty() -> Vec<PathBuf> {
    let jars = std::fs::read_dir(JARS).unwrap_or_else(|err| panic!("{JARS}: {err}; {INSTALL}"));
    let paths = jars.filter_map(|entry| Some(entry.ok()?.path()));
    let is_netty = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("netty-") && name.ends_with(".jar")
    };
    let jars: Vec<_> = paths.filter(is_netty).collect();
    assert!(!jars.is_empty(), "there is no Netty in {JARS}; {INSTALL}");
    jars
}

/// Returns the class path of these jars.
pub(crate) fn class_path(jars: &[&str]) -> String {
    let paths = jars.iter().map(|jar| {
        let path = format!("{JARS}/{jar}.jar");
        assert!(Path::new(&path).exists(), "{path} is missing; {INSTALL}");
        path
    });
    paths.collect::<Vec<_>>().join(":")
}

/// Returns a command of the JDK (`java`, `javac`), having checked that it is there.
pub(crate) fn command(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    assert!(found, "`{name}` is missing; {INSTALL}");
    Command::new(name)
}
