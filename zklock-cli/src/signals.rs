//! Signals that this process heeds.

use std::future::Future;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};

use crate::exit::Failure;

/// Signals, as they arrive.
pub(crate) struct Signals(Vec<(Signal, Arrivals)>);

impl Signals {
    /// Those of these that are not ignored already.
    pub(crate) fn of(all: &[Signal]) -> Result<Self, Failure> {
        let ignored = ignored();
        let heeded = all.iter().filter(|one| ignored >> (**one as u32 - 1) & 1 == 0);
        let arrivals = |one: &Signal| {
            signal(SignalKind::from_raw(*one as i32)).map(|arrivals| (*one, arrivals))
        };
        let all = heeded.map(arrivals).collect::<Result<_, _>>();
        all.map(Signals).map_err(|error| Failure::own(format!("cannot wait for signals: {error}")))
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> impl Future<Output = Signal> {
        std::future::poll_fn(|cx| {
            let mut all = self.0.iter_mut();
            let arrived =
                all.find_map(|(one, arrivals)| arrivals.poll_recv(cx).is_ready().then_some(*one));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
    }
}

/// The exit code that says that a signal was the end.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The signals, a bit each, that whoever started this process ignores: `nohup`, or a script that runs it in
/// the background. That is for the command of `run` too, which inherits it unless they are waited for here.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
