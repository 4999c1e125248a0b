//! The times of nodes, added up over runs.

use super::{Node, Observer};
use core::{fmt, fmt::Write};

/// A clock.
pub trait Clock {
    /// Returns the time in nanoseconds since any fixed moment.
    fn now(&mut self) -> u64;
}

/// A function that reads a timer: `|| cycles() * 1000 / 64` for a counter at 64 MHz.
impl<F: FnMut() -> u64> Clock for F {
    fn now(&mut self) -> u64 {
        self()
    }
}

/// The monotonic clock of the operating system.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct InstantClock(std::time::Instant);

#[cfg(feature = "std")]
impl InstantClock {
    /// Creates a clock that starts now.
    pub fn new() -> InstantClock {
        InstantClock(std::time::Instant::now())
    }
}

#[cfg(feature = "std")]
impl Default for InstantClock {
    fn default() -> Self {
        InstantClock::new()
    }
}

#[cfg(feature = "std")]
impl Clock for InstantClock {
    fn now(&mut self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The times of the executions of one node, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    count: u64,
    total: u64,
    least: u64,
    most: u64,
}

impl Times {
    /// The times of a node that has not been executed.
    pub const NONE: Times = Times { count: 0, total: 0, least: u64::MAX, most: 0 };

    /// The number of executions.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The shortest, or 0 if there is none.
    pub fn least(&self) -> u64 {
        if self.count == 0 { 0 } else { self.least }
    }

    /// The longest.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean, or 0 if there is none.
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    fn add(&mut self, time: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(time);
        self.least = self.least.min(time);
        self.most = self.most.max(time);
    }
}

/// Adds up the times of each node over all runs. `{}` prints a table, `{:.10}` only its first ten
/// nodes.
///
/// `S` holds the times: an array, a vector or a mutable slice with a [`Times::NONE`] for each node.
/// The time of a branch or a loop is that of its own work, without that of the nodes inside.
#[derive(Clone, Debug)]
pub struct Profile<S, C> {
    nodes: &'static [Node],
    times: S,
    clock: C,
    /// The time at which the current node started.
    started: u64,
    runs: u64,
}

impl<S: AsRef<[Times]> + AsMut<[Times]>, C: Clock> Profile<S, C> {
    /// Creates the profile of a module with these nodes. A node without a place in `times` is not
    /// measured.
    pub fn new(nodes: &'static [Node], times: S, clock: C) -> Profile<S, C> {
        Profile { nodes, times, clock, started: 0, runs: 0 }
    }
}

impl<S: AsRef<[Times]>, C> Profile<S, C> {
    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The nodes.
    pub fn nodes(&self) -> &'static [Node] {
        self.nodes
    }

    /// The times of each node.
    pub fn times(&self) -> &[Times] {
        self.times.as_ref()
    }

    /// The time of all nodes in all runs, in nanoseconds.
    pub fn total(&self) -> u64 {
        self.times().iter().map(Times::total).fold(0, u64::saturating_add)
    }

    /// Writes the nodes as folded stacks, from which tools such as `flamegraph.pl` and speedscope
    /// draw flame graphs: the parts of a name between `/` are the frames, and the number is the
    /// total time in nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn write_folded(&self, out: &mut dyn Write) -> fmt::Result {
        for (node, times) in self.nodes.iter().zip(self.times()) {
            for frame in node.name().split('/').filter(|frame| !frame.is_empty()) {
                for c in frame.chars() {
                    out.write_char(if c == ';' || c.is_whitespace() { '_' } else { c })?;
                }
                out.write_char(';')?;
            }
            writeln!(out, "{} {}", node.operator(), times.total())?;
        }
        Ok(())
    }
}

impl<S: AsMut<[Times]>, C: Clock> Observer for Profile<S, C> {
    fn start(&mut self) {
        self.runs += 1;
        self.started = self.clock.now();
    }

    fn node(&mut self, node: usize) {
        let now = self.clock.now();
        if let Some(times) = self.times.as_mut().get_mut(node) {
            times.add(now.saturating_sub(self.started));
        }
        self.started = now;
    }
}
