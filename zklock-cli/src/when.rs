//! Times, for people to read.

use std::time::{Duration, SystemTime};

/// How long ago something was, by the clock of this machine; zero for what is yet to come.
// Nothing is decided by it.
#[allow(clippy::disallowed_methods)]
pub(crate) fn since(moment: SystemTime) -> Duration {
    SystemTime::now().duration_since(moment).unwrap_or_default()
}

/// How long it takes until something is.
#[allow(clippy::disallowed_methods)]
pub(crate) fn until(moment: SystemTime) -> Option<Duration> {
    moment.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero())
}

/// A time span in one unit, or two: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `5 days 3 h`.
pub(crate) fn span(time: Duration) -> String {
    let two = |first: u64, unit: &str, second: u64, small: &str| match second {
        0 => format!("{first} {unit}"),
        _ => format!("{first} {unit} {second} {small}"),
    };
    match time.as_secs() {
        ..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        seconds @ ..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        seconds @ ..172_800 => two(1, "day", seconds / 3_600 - 24, "h"),
        seconds => two(seconds / 86_400, "days", seconds / 3_600 % 24, "h"),
    }
}

/// In milliseconds, for programs.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_are_short() {
        for (seconds, text) in [
            (0.42, "0.4 s"),
            (12.9, "12 s"),
            (60.0, "1 min"),
            (185.0, "3 min 5 s"),
            (7_800.0, "2 h 10 min"),
            (90_000.0, "1 day 1 h"),
            (442_800.0, "5 days 3 h"),
        ] {
            assert_eq!(span(Duration::from_secs_f64(seconds)), text);
        }
    }
}
