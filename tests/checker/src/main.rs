//! `zklock-checker [--linearizable] FILE…`: says whether histories kept the promises.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;
use std::time::Duration;

use zklock_checker::linearizable::{self, Opinion};
use zklock_checker::{History, judge};

fn main() -> ExitCode {
    let (mut files, mut second) = (Vec::new(), false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--linearizable" => second = true,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        eprintln!("usage: zklock-checker [--linearizable] FILE…");
        return ExitCode::from(2);
    }
    let mut kept = true;
    for file in files {
        match judge_file(&file, second) {
            Ok(good) => kept &= good,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge_file(file: &str, second: bool) -> std::io::Result<bool> {
    let history = History::read(BufReader::new(File::open(file)?))?;
    let verdict = judge(&history);
    let violations = &verdict.violations;
    println!(
        "{file}: {} clients, {} locks, {} acquires, {} grants, {} faults, {} violations",
        history.clients.len(),
        history.locks.len(),
        history.acquires,
        history.holds.len(),
        history.faults,
        violations.len()
    );
    for violation in violations.iter().take(100) {
        println!("  {violation}");
    }
    print!("{verdict}");
    let mut kept = violations.is_empty();
    if second {
        for (name, model, opinion) in linearizable::check(&history, Duration::from_secs(30)) {
            kept &= opinion != Opinion::No;
            println!("  {name} as {model}: {opinion:?}");
        }
        for (what, count) in linearizable::left_out(&history) {
            println!("  not looked at: {count} {what}");
        }
    }
    Ok(kept)
}
