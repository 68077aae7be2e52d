//! What happened: a number that tells two runs apart, and lines that people read.

/// A digest of all that happened, and the lines if somebody wants them.
#[derive(Debug)]
pub(super) struct Trace {
    digest: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(lines: bool) -> Self {
        Trace { digest: 0xcbf2_9ce4_8422_2325, lines: lines.then(Vec::new) }
    }

    pub(super) fn note(&mut self, words: &[u64]) {
        for word in words {
            self.digest = (self.digest ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        }
    }

    pub(super) fn say(&mut self, now: u64, line: &str) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>7}.{:03} ms  {line}", now / 1_000, now % 1_000));
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
