//! What one round of one side measured.

use std::time::Duration;

use crate::histogram::Histogram;

/// What one round of one side measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// Processor time of the client in the meantime.
    pub(crate) cpu: Duration,
    /// Acquire and release together, per cycle.
    pub(crate) cycles: Histogram,
    /// From asking to the grant, per cycle.
    pub(crate) waits: Histogram,
    /// From the call that releases to the next grant, where sessions pass one lock around.
    pub(crate) handoffs: Histogram,
}

impl Measured {
    /// Cycles per second.
    pub(crate) fn rate(&self) -> f64 {
        self.cycles.total() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Nanoseconds of processor time for each cycle.
    pub(crate) fn cpu_each(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.cycles.total().max(1) as f64
    }

    /// Adds what another task or process measured at the same time.
    pub(crate) fn merge(&mut self, other: &Measured) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.cpu += other.cpu;
        self.cycles.merge(&other.cycles);
        self.waits.merge(&other.waits);
        self.handoffs.merge(&other.handoffs);
    }

    /// One line for a pipe: `result ELAPSED_NS cpu NS cycles N:C … waits N:C … handoffs N:C …`.
    pub(crate) fn line(&self) -> String {
        let (cycles, waits, handoffs) =
            (self.cycles.words(), self.waits.words(), self.handoffs.words());
        let (elapsed, cpu) = (self.elapsed.as_nanos(), self.cpu.as_nanos());
        format!("result {elapsed} cpu {cpu} cycles{cycles} waits{waits} handoffs{handoffs}")
    }

    /// Reads what [`line`](Measured::line) wrote; the Java and Python sides write the same, without
    /// `cpu`.
    pub(crate) fn parse(line: &str) -> Option<Measured> {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != "result" {
            return None;
        }
        let elapsed = Duration::from_nanos(words.next()?.parse().ok()?);
        let mut measured = Measured { elapsed, ..Measured::default() };
        let mut into = &mut measured.cycles;
        while let Some(word) = words.next() {
            match word {
                "cpu" => measured.cpu = Duration::from_nanos(words.next()?.parse().ok()?),
                "cycles" => into = &mut measured.cycles,
                "waits" => into = &mut measured.waits,
                "handoffs" => into = &mut measured.handoffs,
                word => into.read(word)?,
            }
        }
        Some(measured)
    }
}
