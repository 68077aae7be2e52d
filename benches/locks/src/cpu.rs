//! Processor time: user and system, of all threads of a process.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::drive::Failure;
use crate::measured::Measured;
use crate::sides::Side;

/// What this process has used.
pub(crate) fn of_this_process() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// What another process has used, in steps of the system's ticks, 10 ms for most.
pub(crate) fn of_process(id: u32) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name of the program, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks =
        || -> Result<u64, Failure> { Ok(fields.next().ok_or("a short stat")?.parse()?) };
    let (user, system) = (ticks()?, ticks()?);
    Ok(Duration::from_millis((user + system) * 1000 / clock_ticks_per_second()))
}

/// Runs one round and notes what it used, unless the side did that itself, which is more exact.
pub(crate) fn round(side: &mut dyn Side, time: Duration) -> Result<Measured, Failure> {
    let before = side.cpu()?;
    let mut measured = side.round(time)?;
    if measured.cpu.is_zero() {
        measured.cpu = side.cpu()?.saturating_sub(before);
    }
    Ok(measured)
}
