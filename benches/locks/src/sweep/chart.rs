//! One picture: two panels over one axis, as SVG.
//!
//! By hand, because it is little, and because a picture in a guide must be readable on a light page
//! and on a dark one: it brings its own background, and changes its colours by a media query.

use std::fmt::Write;

use serde_json::Value;

use super::axes::{Axis, Line};
use super::scale::{self, Scale};
use crate::table::grouped;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 430.0;

/// Where the panels' plots are: top and bottom, and left and right of each.
const ROWS: [f64; 2] = [110.0, 370.0];
const PANELS: [[f64; 2]; 2] = [[80.0, 455.0], [560.0, 935.0]];

/// The colours of the lines, on light and on dark, in the order of the sides.
const COLOURS: [[&str; 2]; 6] = [
    ["#0860c4", "#6cb2ff"],
    ["#b35900", "#f2a65a"],
    ["#1a7f37", "#56d364"],
    ["#8250df", "#c4a1ff"],
    ["#c6213b", "#ff8a80"],
    ["#656d76", "#9aa4af"],
];

/// What stays the same: text, grid, background.
const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2328}\
.title{font-size:17px;font-weight:600}.panel{font-size:13px;font-weight:600}\
.back{fill:#ffffff}.grid{stroke:#d5dae0;stroke-width:1}.axis{stroke:#656d76;stroke-width:1}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}.ours{stroke-width:3.5}\
.limit{stroke-dasharray:6 4}";

const DARK: &str = "\
text{fill:#e6edf3}.back{fill:#0d1117}.grid{stroke:#30363d}.axis{stroke:#9aa4af}";

/// One figure of each point.
struct Panel {
    title: &'static str,
    key: &'static str,
    label: fn(f64) -> String,
}

const FIGURES: [Panel; 2] = [
    Panel { title: "locks per second (higher is better)", key: "locks_per_s", label: scale::rate },
    Panel {
        title: "longest wait of any task (lower is better)",
        key: "longest_wait_ns",
        label: scale::duration,
    },
];

/// Draws the picture of an axis.
pub(crate) fn draw(axis: &Axis, sides: &Value) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<title>{}</title>\n<style>{}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n",
        axis.title,
        style(),
    );
    text(&mut svg, 24.0, 32.0, "title", "start", axis.title);
    let all = axis.sides.iter().enumerate();
    let drawn: Vec<(usize, &Line)> =
        all.filter(|(_, line)| !points(sides, line, FIGURES[0].key).is_empty()).collect();
    legend(&mut svg, &drawn);
    for (panel, columns) in FIGURES.iter().zip(PANELS) {
        draw_panel(&mut svg, axis, sides, &drawn, panel, columns);
    }
    svg.push_str("</svg>\n");
    svg
}

fn style() -> String {
    let (mut light, mut dark) = (STYLE.to_owned(), DARK.to_owned());
    for (at, [on_light, on_dark]) in COLOURS.iter().enumerate() {
        _ = write!(light, ".line.c{at}{{stroke:{on_light}}}.mark.c{at}{{fill:{on_light}}}");
        _ = write!(dark, ".line.c{at}{{stroke:{on_dark}}}.mark.c{at}{{fill:{on_dark}}}");
    }
    format!("{light}@media (prefers-color-scheme:dark){{{dark}}}")
}

fn draw_panel(
    svg: &mut String,
    axis: &Axis,
    sides: &Value,
    drawn: &[(usize, &Line)],
    panel: &Panel,
    [left, right]: [f64; 2],
) {
    let [top, bottom] = ROWS;
    let least = axis.points.first().copied().unwrap_or(1) as f64;
    let most = axis.points.last().copied().unwrap_or(10) as f64;
    let across = Scale::exact(least, most, [left, right]);
    let figures = drawn.iter().flat_map(|(_, line)| points(sides, line, panel.key));
    let up = Scale::around(figures.map(|(_, figure)| figure), [bottom, top]);
    text(svg, left, top - 14.0, "panel", "start", panel.title);
    for figure in up.decades() {
        let y = up.place(figure);
        rule(svg, "grid", [left, y], [right, y]);
        text(svg, left - 8.0, y + 4.0, "", "end", &(panel.label)(figure));
    }
    for point in axis.points {
        let x = across.place(*point as f64);
        rule(svg, "axis", [x, bottom], [x, bottom + 5.0]);
        text(svg, x, bottom + 20.0, "", "middle", &grouped(*point as f64));
    }
    rule(svg, "axis", [left, bottom], [right, bottom]);
    text(svg, f64::midpoint(left, right), bottom + 42.0, "", "middle", axis.unit);
    if drawn.is_empty() {
        let y = f64::midpoint(top, bottom);
        text(svg, f64::midpoint(left, right), y, "", "middle", "not measured yet");
    }
    // The first last: ours lies over the others.
    for (at, line) in drawn.iter().rev() {
        let places = points(sides, line, panel.key);
        let places = places.into_iter().map(|(n, figure)| (across.place(n), up.place(figure)));
        let places: Vec<_> = places.collect();
        let words: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        _ = writeln!(svg, "<polyline class=\"{}\" points=\"{}\"/>", class(*at), words.join(" "));
        for (x, y) in places {
            mark(svg, *at, x, y);
        }
    }
}

fn legend(svg: &mut String, drawn: &[(usize, &Line)]) {
    let mut x = 24.0;
    for (at, line) in drawn {
        _ = writeln!(svg, "<polyline class=\"{}\" points=\"{x},56 {},56\"/>", class(*at), x + 28.0);
        mark(svg, *at, x + 14.0, 56.0);
        text(svg, x + 34.0, 60.0, "", "start", line.label);
        // About as wide as the letters are.
        x += 34.0 + 7.2 * line.label.chars().count() as f64 + 18.0;
    }
}

/// The figures of a side: the point and what was measured there.
fn points(sides: &Value, line: &Line, key: &str) -> Vec<(f64, f64)> {
    let points = sides[line.name].as_array().map(Vec::as_slice).unwrap_or_default();
    let figure = |point: &Value| Some((point["n"].as_f64()?, point[key].as_f64()?));
    points.iter().filter_map(figure).filter(|(n, figure)| *n > 0.0 && *figure > 0.0).collect()
}

fn class(at: usize) -> String {
    let more = match at {
        0 => " ours",
        // What is no lock on ZooKeeper comes last.
        5 => " limit",
        _ => "",
    };
    format!("line c{at}{more}")
}

/// A mark of a form of its own for each side: colours alone are not for everybody.
fn mark(svg: &mut String, at: usize, x: f64, y: f64) {
    let form = match at {
        0 => "m-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0",
        1 => "m-4.5,-4.5h9v9h-9z",
        2 => "m0,-5.5l5.5,9.5h-11z",
        3 => "m0,-6l6,6l-6,6l-6,-6z",
        4 => "m0,5.5l5.5,-9.5h-11z",
        _ => "m-5,-1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
    };
    _ = writeln!(svg, "<path class=\"mark c{at}\" d=\"M{x:.1},{y:.1}{form}\"/>");
}

fn rule(svg: &mut String, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
    _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
    _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}
