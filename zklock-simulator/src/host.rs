//! The machine on which the library runs in a simulated process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use zklock_core::base::machine::{Machine, Work};

use crate::executor::Process;

/// When the world begins, for whoever reads a wall clock.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

/// A simulated process, as its sessions see it.
#[derive(Debug)]
pub struct Host(Process, String);

impl Host {
    /// The machine of a process.
    pub fn of(process: &Process) -> Arc<dyn Machine> {
        Host::below(process, "")
    }

    /// The same, whose sessions see a part of the tree.
    pub fn below(process: &Process, chroot: &str) -> Arc<dyn Machine> {
        Arc::new(Host(process.clone(), chroot.to_owned()))
    }
}

impl Machine for Host {
    fn nanos(&self) -> u64 {
        self.0.nanos()
    }

    fn until(&self, nanos: u64) -> Work {
        Box::pin(self.0.world().sleep_until(self.0.moment(nanos)))
    }

    fn spawn(&self, name: &'static str, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn_named(name, work);
    }

    fn identifier(&self) -> u128 {
        // Spread over all digits, so that names look as they do elsewhere.
        u128::from(self.0.world().unique()).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn wall_clock(&self) -> SystemTime {
        let (begin, since) = (SystemTime::UNIX_EPOCH + BEGIN, self.0.wall());
        let far = Duration::from_micros(since.unsigned_abs());
        if since < 0 { begin - far } else { begin + far }
    }

    fn place(&self) -> u64 {
        self.0.place()
    }

    fn chroot(&self) -> &str {
        &self.1
    }

    fn process(&self) -> (String, u32) {
        ("simulated".to_owned(), self.0.id().0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::Chooser;
    use crate::executor::World;

    #[test]
    fn wall_clocks_are_wrong_without_others() {
        let world = World::new(Chooser::replay(Vec::new()), false);
        let (ahead, behind, right) = (world.process(), world.process(), world.process());
        ahead.set_ahead(1_000_000);
        behind.set_ahead(-1_000_000);
        let wall = |process| Host::of(process).wall_clock();
        let second = Duration::from_secs(1);
        assert_eq!(wall(&ahead), wall(&right) + second);
        assert_eq!(wall(&behind), wall(&right) - second);
        assert_eq!(ahead.nanos(), right.nanos());
    }
}
