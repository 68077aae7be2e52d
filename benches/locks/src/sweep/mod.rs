//! Throughput and longest wait against the number of tasks, processes and locks, as pictures.

mod axes;
mod chart;
mod scale;

use std::path::Path;

use serde_json::{Map, Value, json};

use self::axes::{AXES, Axis};
use crate::drive::Failure;
use crate::options::Options;
use crate::pool;
use crate::rounds;
use crate::sides::Bed;
use crate::table::{grouped, time};
use crate::workload::Workload;

const FILE: &str = "sweep.json";

/// Measures all axes, writes the figures, and draws them.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    pool::set_workers(options.workers);
    let mut bed = Bed::start(options.fsync, options.ensemble);
    let mut sweep = Map::new();
    for axis in &AXES {
        println!("\n{}", axis.title);
        sweep.insert(axis.name.to_owned(), measure(&mut bed, axis, options));
    }
    std::fs::create_dir_all(&options.pictures)?;
    std::fs::write(options.pictures.join(FILE), format!("{:#}\n", Value::from(sweep)))?;
    draw(&options.pictures)
}

/// The points of each side: `{"side": [{"n": 1, "locks_per_s": …, "longest_wait_ns": …}, …]}`.
fn measure(bed: &mut Bed, axis: &Axis, options: &Options) -> Value {
    let mut sides: Map<String, Value> = Map::new();
    let points = axis.points.iter().copied().filter(|n| !options.quick || axis.is_quick(*n));
    for n in points {
        let names: Vec<_> = axis.sides.iter().filter(|side| n <= side.most).collect();
        let names: Vec<_> = names.into_iter().map(|side| side.name).collect();
        let workload =
            Workload { name: axis.name, title: axis.title, shape: axis.shape(n), sides: &names };
        let wanted =
            |name: &str| options.sides.is_empty() || options.sides.iter().any(|side| side == name);
        let (all, missing) = rounds::run(bed, &workload, wanted, options.time, options.rounds);
        for series in all {
            let (rate, longest) = (
                series.median(|round| round.rate()),
                series.greatest(|round| round.waits.longest()),
            );
            println!(
                "{n:>6} {:<20}{:>12}/s{:>12}",
                series.side,
                grouped(rate),
                time(longest as f64)
            );
            let point = json!({ "n": n, "locks_per_s": rate, "longest_wait_ns": longest });
            let points = sides.entry(series.side).or_insert_with(|| Value::Array(Vec::new()));
            points.as_array_mut().into_iter().for_each(|points| points.push(point.clone()));
        }
        missing.iter().for_each(|line| println!("{n:>6} {line}"));
    }
    Value::from(sides)
}

/// Draws the pictures of the figures in a folder.
pub(crate) fn draw(folder: &Path) -> Result<(), Failure> {
    let file = folder.join(FILE);
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; --sweep makes it", file.display()))?;
    let sweep: Value = serde_json::from_str(&text)?;
    for axis in &AXES {
        if sweep[axis.name].as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(format!("{} has no {}; --sweep makes it", file.display(), axis.name).into());
        }
        let picture = folder.join(format!("{}.svg", axis.name));
        std::fs::write(&picture, chart::draw(axis, &sweep[axis.name]))?;
        println!("{}", picture.display());
    }
    Ok(())
}
