//! Logarithmic scales.

/// Maps figures to places along a line of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    /// Where `from` and `to` are, in pixels.
    pixels: [f64; 2],
}

impl Scale {
    /// A scale from the first figure to the last.
    pub(crate) fn exact(from: f64, to: f64, pixels: [f64; 2]) -> Scale {
        Scale { from: from.log10(), to: to.log10(), pixels }
    }

    /// A scale of whole powers of ten that holds all figures.
    pub(crate) fn around(figures: impl Iterator<Item = f64>, pixels: [f64; 2]) -> Scale {
        let logs: Vec<_> = figures.filter(|figure| *figure > 0.0).map(f64::log10).collect();
        let from = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let to = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Figures that are all equal, or none at all, still need some length.
        let (from, to) = if logs.is_empty() { (0.0, 3.0) } else { (from.floor(), to.ceil()) };
        Scale { from, to: to.max(from + 1.0), pixels }
    }

    /// Where a figure is, in pixels.
    pub(crate) fn place(&self, figure: f64) -> f64 {
        let share = (figure.log10() - self.from) / (self.to - self.from);
        self.pixels[0] + share * (self.pixels[1] - self.pixels[0])
    }

    /// The powers of ten on it.
    pub(crate) fn decades(&self) -> impl Iterator<Item = f64> + use<> {
        (self.from.ceil() as i32..=self.to.floor() as i32).map(|power| 10_f64.powi(power))
    }
}

/// A rate, short.
pub(crate) fn rate(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e3 => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}

/// A duration in nanoseconds, short.
pub(crate) fn duration(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{} s", value / 1e9),
        value if value >= 1e6 => format!("{} ms", value / 1e6),
        value if value >= 1e3 => format!("{} µs", value / 1e3),
        value => format!("{value} ns"),
    }
}
