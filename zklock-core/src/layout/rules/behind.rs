//! The rule of who is waited for: whether somebody behind a contender waits for it.

use crate::base::mode::Mode;
use crate::layout::contender::Contender;

/// Whether a contender behind `mine` waits for it.
pub fn anybody_behind(queue: &[Contender], mine: &str) -> bool {
    let Some(place) = queue.iter().position(|contender| contender.name == mine) else {
        return true;
    };
    let (mine, behind) = (&queue[place], &queue[place + 1..]);
    behind.iter().any(|other| mine.mode != Mode::Read || other.mode != Mode::Read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_behind_a_reader_do_not_wait_for_it() {
        let queue = |modes: &[Mode]| -> Vec<_> {
            let contender =
                |(n, mode): (usize, &Mode)| Contender::new(format!("{n}"), n as i64, *mode);
            modes.iter().enumerate().map(contender).collect()
        };
        let readers = queue(&[Mode::Read, Mode::Read]);
        assert!(!anybody_behind(&readers, "0"));
        assert!(anybody_behind(&readers, "unknown"));
        let writer = queue(&[Mode::Read, Mode::Read, Mode::Write]);
        assert!(anybody_behind(&writer, "0") && !anybody_behind(&writer, "2"));
        let mutex = queue(&[Mode::Mutex, Mode::Mutex]);
        assert!(anybody_behind(&mutex, "0") && !anybody_behind(&mutex, "1"));
    }
}
