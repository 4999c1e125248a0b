//! Tunes the smallest part of a model's work that is worth another thread.
//!
//! Between cores that share a cache, a part of one microsecond is worth it; between distant cores
//! of a virtual machine, or where other programs use the cores, a part of ten may not be. A model
//! therefore runs a few times at each of several levels, continues at the fastest one, and repeats
//! the trial after some thousand runs.

use super::GRAIN;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// The number of levels. A part must be worth [`GRAIN`] at level 0, four times as much at each
/// level that follows; at the last level nothing is shared.
const LEVELS: usize = 4;
/// The number of runs between trials.
const REST: u32 = 1 << 12;
/// The number of runs until the next trial if a run had no work to measure.
const BRIEF: u32 = 1 << 6;
/// The time that a level warms up before its runs count: threads wake up, and caches fill.
const WARM: Duration = Duration::from_micros(200);
/// The number of runs that count at each level: of short and of long runs.
const RUNS: [u32; 2] = [8, 2];
/// Runs that are longer than this are tried less often.
const LONG: Duration = Duration::from_millis(1);
/// Runs that may take longer than this on a single thread are never tried there.
const LONGEST_ALONE: Duration = Duration::from_millis(16);
/// The percentage by which a level must be faster than the current one to replace it.
const LESS: u32 = 2;

/// The tuning state of one model. The initial state is all zeros, as in an arena of zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granularity {
    /// The level of the runs between trials.
    level: usize,
    /// The number of runs until the next trial.
    rest: u32,
    /// The level under trial, its number of runs, and the nanoseconds that it warmed up.
    tried: usize,
    runs: u32,
    spent: u32,
    /// The shortest run at each level, in nanoseconds.
    least: [u32; LEVELS],
    /// The number of the run that is measured; 0 for none. Numbers are unique in the process.
    measured: u64,
}

std::thread_local! {
    static RUN: Run = const {
        Run { grain: Cell::new(GRAIN), shares: Cell::new(false), number: Cell::new(0),
            start: Cell::new(None), took: Cell::new(Duration::ZERO) }
    };
}

/// The current run of a thread.
struct Run {
    /// The smallest worth of a part, in elements.
    grain: Cell<usize>,
    /// Whether any work was shared.
    shares: Cell<bool>,
    /// The number of the last measured run.
    number: Cell<u64>,
    /// The start of the measured run, until the next run starts.
    start: Cell<Option<Instant>>,
    /// The time from the start to the end of the last shareable work.
    took: Cell<Duration>,
}

/// Returns the smallest worth of a part in this thread's run, in elements.
pub fn grain() -> usize {
    RUN.with(|run| run.grain.get())
}

/// Records that work was shared.
pub fn shares() {
    RUN.with(|run| run.shares.set(true));
}

/// Records that shareable work is complete.
pub fn done() {
    RUN.with(|run| {
        if let Some(start) = run.start.get() {
            run.took.set(start.elapsed());
        }
    });
}

impl Granularity {
    /// Creates the state before the first run.
    pub const fn new() -> Granularity {
        Granularity {
            level: 0,
            rest: 0,
            tried: 0,
            runs: 0,
            spent: 0,
            least: [0; LEVELS],
            measured: 0,
        }
    }

    /// Records the run before, and starts a new one.
    pub fn start(&mut self) {
        RUN.with(|run| {
            if self.measured != 0 && self.measured == run.number.get() {
                self.note(run.took.get(), run.shares.get());
            }
            self.next(run);
        });
    }

    /// Chooses the level of the run that starts, and whether it is measured.
    fn next(&mut self, run: &Run) {
        static MEASURED: AtomicU64 = AtomicU64::new(1);
        self.measured = 0;
        run.start.set(None);
        if self.rest > 0 {
            self.rest -= 1;
            return run.grain.set(grain_of(self.level));
        }
        run.grain.set(grain_of(self.tried));
        if super::is_shared() {
            self.measured = MEASURED.fetch_add(1, Ordering::Relaxed);
            run.number.set(self.measured);
            run.shares.set(false);
            run.took.set(Duration::ZERO);
            run.start.set(Some(Instant::now()));
        }
    }

    /// Records the time of a run at the level under trial.
    fn note(&mut self, took: Duration, shares: bool) {
        if took == Duration::ZERO {
            // There was no shareable work: perhaps the caller only read the memory.
            self.rest = BRIEF;
            return;
        }
        let nanos = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX).max(1);
        if self.tried == 0 && !shares {
            // Nothing was worth sharing at the finest level, so all levels are the same.
            return self.settle(0);
        }
        if Duration::from_nanos(self.spent.into()) < WARM || self.runs < 2 {
            self.spent = self.spent.saturating_add(nanos);
            (self.runs, self.least[self.tried]) = (self.runs.min(1) + 1, u32::MAX);
            return;
        }
        self.least[self.tried] = self.least[self.tried].min(nanos);
        self.runs += 1;
        let finest = Duration::from_nanos(self.least[0].into());
        if self.runs < 2 + RUNS[usize::from(finest > LONG)] {
            return;
        }
        (self.tried, self.runs, self.spent) = (self.tried + 1, 0, 0);
        let alone = finest.as_nanos() * super::count() as u128;
        if self.tried == if alone > LONGEST_ALONE.as_nanos() { LEVELS - 1 } else { LEVELS } {
            self.settle(self.fastest(self.tried));
        }
    }

    /// Returns the fastest of the first `levels` levels; the current one unless another is at least
    /// [`LESS`] percent faster.
    fn fastest(&self, levels: usize) -> usize {
        let least = |level: usize| u64::from(self.least[level]);
        let best = (0..levels).min_by_key(|&level| least(level)).unwrap_or(0);
        let known = self.level.min(levels - 1);
        if least(best) * 100 < least(known) * u64::from(100 - LESS) { best } else { known }
    }

    fn settle(&mut self, level: usize) {
        (self.level, self.rest) = (level, REST);
        (self.tried, self.runs, self.spent) = (0, 0, 0);
    }
}

/// Returns the smallest worth of a part at `level`, in elements.
fn grain_of(level: usize) -> usize {
    if level + 1 < LEVELS { GRAIN << (2 * level) } else { usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the level that a model settles on if its runs take `micros` at each level.
    fn settled(granularity: &mut Granularity, micros: [u64; LEVELS]) -> usize {
        for _ in 0..1000 {
            if granularity.rest > 0 {
                break;
            }
            granularity.note(
                Duration::from_micros(micros[granularity.tried]),
                granularity.tried + 1 < LEVELS,
            );
        }
        assert_eq!(granularity.rest, REST);
        granularity.rest = 0;
        granularity.level
    }

    #[test]
    fn the_fastest_level_is_kept() {
        let granularity = &mut Granularity::new();
        assert_eq!(settled(granularity, [100, 90, 120, 95]), 1);
        assert_eq!(settled(granularity, [100, 99, 120, 98]), 1, "no other is faster by much");
        assert_eq!(settled(granularity, [100, 100, 90, 80]), 3);
        assert_eq!(settled(granularity, [50, 100, 100, 100]), 0);
    }

    #[test]
    fn a_long_run_is_not_held_on_one_thread() {
        let granularity = &mut Granularity::new();
        assert_eq!(settled(granularity, [20_000, 15_000, 17_000, 10]), 1);
        assert_eq!(granularity.least[3], 0);
    }

    #[test]
    fn a_model_that_shares_nothing_rests() {
        let granularity = &mut Granularity::new();
        granularity.note(Duration::from_micros(5), false);
        assert_eq!((granularity.rest, granularity.level), (REST, 0));
    }

    #[test]
    fn interleaved_runs_of_other_models_do_not_count() {
        let (mut one, mut other) = (Granularity::new(), Granularity::new());
        super::super::start(4);
        one.start();
        assert_ne!(one.measured, 0);
        other.start();
        one.start();
        assert_eq!((one.runs, one.rest), (0, 0));
        one.start();
        assert_eq!((one.runs, one.rest), (0, BRIEF - 1), "nothing was done");
        one.rest = 0;
        one.start();
        shares();
        done();
        one.start();
        assert_eq!(one.runs, 1);
    }
}
