//! What a part of a model's work must be worth to be handed to another thread. Between cores that share
//! a cache a part of a microsecond pays; between those of a virtual machine that lie apart, or where
//! other programs have the cores, one of ten may not. No rule knows, so it is tried: a model runs some
//! times at each level, and goes on at the one that was fastest, until it is time to try again.

use super::GRAIN;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// A part must be worth [`GRAIN`] at the first level, four times as much at each that follows, and at
/// the last nothing is shared.
const LEVELS: usize = 4;
/// So many runs go by between trials.
const REST: u32 = 1 << 12;
/// So many go by where one said nothing.
const BRIEF: u32 = 1 << 6;
/// So long a level is tried before its runs count, so that threads are awake and caches have what each
/// thread reads.
const WARM: Duration = Duration::from_micros(200);
/// So many runs count at each level, and so many of those that take long.
const RUNS: [u32; 2] = [8, 2];
/// Runs that take longer are never held on one thread for a trial.
const LONG: Duration = Duration::from_millis(1);
/// Another level is to take so many parts less than the last one, of a hundred.
const LESS: u32 = 2;

/// What was found so far, for one model. All zeros at first, so that an arena is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granularity {
    /// The level of the runs between trials.
    level: usize,
    /// How many runs are left until the next trial.
    rest: u32,
    /// The level that is tried, and since how many runs and how many nanoseconds.
    tried: usize,
    runs: u32,
    spent: u32,
    /// The shortest run at each level, in nanoseconds.
    least: [u32; LEVELS],
    /// Which run is measured, of all; 0 for none.
    measured: u64,
}

std::thread_local! {
    static RUN: Run = const {
        Run { grain: Cell::new(GRAIN), shares: Cell::new(false), number: Cell::new(0),
            start: Cell::new(None), took: Cell::new(Duration::ZERO) }
    };
}

/// A thread's run of a model.
struct Run {
    /// What a part must be worth.
    grain: Cell<usize>,
    /// Whether any work was shared.
    shares: Cell<bool>,
    /// The last measured run, of all.
    number: Cell<u64>,
    /// When that started, as long as it is under way.
    start: Cell<Option<Instant>>,
    /// How long it took until the last of its work that could be shared was done.
    took: Cell<Duration>,
}

/// What a part must be worth in this thread's run.
pub fn grain() -> usize {
    RUN.with(|run| run.grain.get())
}

/// Takes note that work was shared.
pub fn shares() {
    RUN.with(|run| run.shares.set(true));
}

/// Takes note that work that could be shared is done.
pub fn done() {
    RUN.with(|run| {
        if let Some(start) = run.start.get() {
            run.took.set(start.elapsed());
        }
    });
}

impl Granularity {
    /// Nothing was tried yet.
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

    /// Takes note that a run starts, and that the one before is over.
    pub fn start(&mut self) {
        RUN.with(|run| {
            if self.measured != 0 && self.measured == run.number.get() {
                self.note(run.took.get(), run.shares.get());
            }
            self.next(run);
        });
    }

    /// Decides on the run that starts.
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

    /// Takes note of how long a run took at the level that is tried.
    fn note(&mut self, took: Duration, shares: bool) {
        if took == Duration::ZERO {
            // Nothing was done that could be shared: perhaps somebody only looked at the memory.
            self.rest = BRIEF;
            return;
        }
        let nanos = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX).max(1);
        if self.tried == 0 && !shares {
            // Nothing that could go better or worse.
            return self.settle(0);
        }
        if Duration::from_nanos(self.spent.into()) < WARM || self.runs < 2 {
            self.spent = self.spent.saturating_add(nanos);
            (self.runs, self.least[self.tried]) = (self.runs.min(1) + 1, u32::MAX);
            return;
        }
        self.least[self.tried] = self.least[self.tried].min(nanos);
        self.runs += 1;
        let is_long = Duration::from_nanos(self.least[0].into()) > LONG;
        if self.runs < 2 + RUNS[usize::from(is_long)] {
            return;
        }
        (self.tried, self.runs, self.spent) = (self.tried + 1, 0, 0);
        if self.tried == if is_long { LEVELS - 1 } else { LEVELS } {
            self.settle(self.fastest(self.tried));
        }
    }

    /// The level that was fastest, of so many; the last one, if no other is faster by much.
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

/// What a part must be worth at a level.
fn grain_of(level: usize) -> usize {
    if level + 1 < LEVELS { GRAIN << (2 * level) } else { usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a model settles for whose runs take so many microseconds at each level.
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
    fn a_model_goes_on_at_the_level_that_was_fastest() {
        let granularity = &mut Granularity::new();
        assert_eq!(settled(granularity, [100, 90, 120, 95]), 1);
        assert_eq!(settled(granularity, [100, 99, 120, 98]), 1, "no other is faster by much");
        assert_eq!(settled(granularity, [100, 100, 90, 80]), 3);
        assert_eq!(settled(granularity, [50, 100, 100, 100]), 0);
    }

    #[test]
    fn a_long_run_is_not_held_on_one_thread() {
        let granularity = &mut Granularity::new();
        assert_eq!(settled(granularity, [2000, 1500, 1700, 10]), 1);
        assert_eq!(granularity.least[3], 0);
    }

    #[test]
    fn a_model_that_shares_nothing_rests() {
        let granularity = &mut Granularity::new();
        granularity.note(Duration::from_micros(5), false);
        assert_eq!((granularity.rest, granularity.level), (REST, 0));
    }

    #[test]
    fn runs_of_other_models_in_between_do_not_count() {
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
