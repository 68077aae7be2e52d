//! zklock's side of the tests beside Curator and kazoo: a process that takes a lock again and again.
//!
//! `sections SERVERS LAYOUT KIND PATH N [FILE | LIMIT]`. The kind `counter` adds 1 to the number in a file
//! under a mutex; a section that is entered twice at once is an error. The kind `rw` takes a
//! read/write lock at random, `semaphore` a permit; both print `MODE ENTERED LEFT` for each time.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::time::Duration;

use zklock::{Session, layout};
use zklock_test_support::monotonic_ns;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [servers, layout, kind, path, n, rest @ ..] = args.as_slice() else {
        return Err("SERVERS LAYOUT KIND PATH N [FILE | LIMIT]".into());
    };
    let (root, name) = path.rsplit_once('/').ok_or("the path is absolute")?;
    let root = if root.is_empty() { "/" } else { root };
    let builder = Session::builder(servers).root(root).connect_timeout(Duration::from_secs(30));
    let builder = match layout.as_str() {
        "kazoo" => builder.driver(layout::Kazoo::default()),
        _ => builder,
    };
    let session = builder.connect().await?;
    for _ in 0..n.parse()? {
        match (kind.as_str(), rest) {
            ("counter", [file]) => {
                let guard = session.mutex(name)?.acquire().await?;
                count(file)?;
                guard.release().await?;
            }
            ("rw", _) if !monotonic_ns().is_multiple_of(3) => {
                let guard = session.rw_lock(name)?.read().await?;
                pass("read").await;
                guard.release().await?;
            }
            ("rw", _) => {
                let guard = session.rw_lock(name)?.write().await?;
                pass("write").await;
                guard.release().await?;
            }
            ("semaphore", [limit]) => {
                let guard = session.semaphore(name, limit.parse()?)?.acquire().await?;
                pass("permit").await;
                guard.release().await?;
            }
            _ => return Err("no such kind".into()),
        }
    }
    session.close().await;
    if kind == "counter" {
        println!("done {n}");
    }
    Ok(())
}

fn count(file: &str) -> Result<(), Box<dyn Error>> {
    let inside = format!("{file}.inside");
    OpenOptions::new().write(true).create_new(true).open(&inside)?;
    let value: u64 = fs::read_to_string(file)?.trim().parse()?;
    std::thread::yield_now();
    fs::write(file, (value + 1).to_string())?;
    fs::remove_file(inside)?;
    Ok(())
}

async fn pass(mode: &str) {
    let entered = monotonic_ns();
    tokio::time::sleep(Duration::from_micros(1000 + entered % 3000)).await;
    println!("{mode} {entered} {}", monotonic_ns());
}
