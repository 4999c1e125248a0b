//! Measures the time of a phase, and the memory of the process.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// How often the system is asked for the memory.
const INTERVAL: Duration = Duration::from_millis(50);

/// The clock of a phase.
#[derive(Debug)]
pub struct Clock {
    start: Cell<Instant>,
    /// When the memory was last measured.
    measured: Cell<Option<Instant>>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { start: Cell::new(Instant::now()), measured: Cell::new(None) }
    }
}

impl Clock {
    /// Starts another phase.
    pub fn restart(&self) {
        self.start.set(Instant::now());
    }

    /// Returns the time since the phase started.
    pub fn elapsed(&self) -> Duration {
        self.start.get().elapsed()
    }

    /// Returns the bytes of memory that the process uses, if the system tells and a while has
    /// passed since it was asked.
    pub fn memory(&self) -> Option<usize> {
        let now = Instant::now();
        if self.measured.get().is_some_and(|last| now.duration_since(last) < INTERVAL) {
            return None;
        }
        self.measured.set(Some(now));
        anonymous_bytes()
    }
}

/// Returns the bytes of memory of the process that are not those of files, such as a mapped model.
/// Only Linux tells them.
fn anonymous_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_measured_once_in_a_while() {
        let clock = Clock::default();
        let bytes = clock.memory();
        assert_eq!(bytes.is_some_and(|bytes| bytes > 1 << 16), cfg!(target_os = "linux"));
        assert_eq!(clock.memory(), None);
    }
}
