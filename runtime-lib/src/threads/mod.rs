//! Runs kernels on several threads, with the feature `threads`.
//!
//! Results do not depend on the number of threads: a thread computes a part of the output, and each
//! element is computed by one thread, by the same operations in the same order.

#[cfg(feature = "threads")]
mod granularity;
#[cfg(feature = "threads")]
mod pool;
#[cfg(all(test, feature = "threads"))]
mod same;
mod share;
#[cfg(all(test, feature = "threads"))]
mod tests;

pub(crate) use share::{By, Piece, Share, share_all};

/// The smallest worth of a part, in elements that are read, computed and written: about a
/// microsecond, more than the synchronization of two nearby cores.
#[cfg(feature = "threads")]
const GRAIN: usize = 1 << 12;
/// The number of multiply-adds of a GEMM that take as long as one element.
pub(crate) const MACS_PER_ELEMENT: usize = 16;

/// Returns the number of threads that share work, including the caller's: 1 without the feature
/// `threads`.
///
/// Unless `start` was called first, it is the value of the environment variable `ONNXC_THREADS`, or
/// else the number of processors that the system reports.
pub fn count() -> usize {
    #[cfg(feature = "threads")]
    return shared::count();
    #[cfg(not(feature = "threads"))]
    1
}

/// Sets the number of threads that share work, including the caller's. Returns whether `count` is
/// the number in use: the first call of this function, or the first kernel that shares work, fixes
/// it.
#[cfg(feature = "threads")]
pub fn start(count: usize) -> bool {
    shared::start(count)
}

/// Splits an output into parts that threads fill concurrently. A part consists of whole units of
/// `unit` elements (the last unit may be shorter). `part` gets the index of its first unit. `cost`
/// is the worth of all work, in elements.
#[inline(always)]
pub(crate) fn share<T: Send>(
    y: &mut [T],
    unit: usize,
    cost: usize,
    part: impl Fn(usize, &mut [T]) + MaybeSync,
) {
    let len = y.len();
    let fill = |mut piece: Piece<'_, T>| part(piece.rows.start, piece.y.plane(0));
    if len == 0 {
        return part(0, y);
    }
    Share::of(y, len).hand_out(unit, By::Rows, cost, fill);
}

/// `Sync` with the feature `threads`; without it, every type.
#[cfg(not(feature = "threads"))]
pub(crate) trait MaybeSync {}
#[cfg(not(feature = "threads"))]
impl<T> MaybeSync for T {}

#[cfg(feature = "threads")]
pub(crate) use core::marker::Sync as MaybeSync;

/// The granularity of shared work. Without threads there is nothing to tune.
#[cfg(not(feature = "threads"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Granularity;

#[cfg(not(feature = "threads"))]
impl Granularity {
    /// Creates the state before the first run.
    pub const fn new() -> Granularity {
        Granularity
    }

    /// Records that a run starts.
    #[inline(always)]
    pub fn start(&mut self) {}
}

#[cfg(feature = "threads")]
pub(crate) use granularity::Granularity;

/// Records that shareable work is complete.
#[cfg(not(feature = "threads"))]
#[inline(always)]
fn done() {}

/// Returns the number of parts of some work.
#[cfg(not(feature = "threads"))]
#[inline(always)]
fn parts(_: usize, _: usize) -> usize {
    1
}

/// Runs all parts.
#[cfg(not(feature = "threads"))]
#[inline(always)]
fn run(parts: usize, work: &dyn Fn(usize)) {
    (0..parts).for_each(work);
}

#[cfg(feature = "threads")]
use {
    granularity::done,
    shared::{is_shared, parts, run},
};

/// Scratch memory that the caller planned for one thread. Other threads have their own.
#[cfg(not(feature = "threads"))]
pub(crate) struct Scratch<'a, T>(core::cell::RefCell<&'a mut [T]>);

#[cfg(not(feature = "threads"))]
impl<'a, T> Scratch<'a, T> {
    /// Wraps the memory that the caller planned.
    #[inline(always)]
    pub fn new(planned: &'a mut [T]) -> Scratch<'a, T> {
        Scratch(planned.into())
    }

    /// Calls `part` with scratch memory.
    #[inline(always)]
    pub fn with(&self, part: impl FnOnce(&mut [T])) {
        part(&mut self.0.borrow_mut());
    }
}

/// An element type of scratch memory.
#[cfg(not(feature = "threads"))]
pub(crate) trait Own {}
#[cfg(not(feature = "threads"))]
impl<T> Own for T {}

#[cfg(feature = "threads")]
pub(crate) use shared::{Own, Scratch};

#[cfg(feature = "threads")]
mod shared {
    use super::granularity;
    use super::pool::{AT_WORK, Pool};
    use core::cell::RefCell;
    use std::sync::{Mutex, OnceLock};
    use std::thread::LocalKey;
    use std::vec::Vec;

    /// The limit of the number of threads: more do not help, and a typing error in the environment
    /// variable does no harm.
    const MOST: usize = 256;

    static POOL: OnceLock<(Pool, usize)> = OnceLock::new();

    fn pool(count: impl FnOnce() -> usize) -> &'static (Pool, usize) {
        let whole = POOL.get_or_init(|| {
            let count = count().clamp(1, MOST);
            (Pool::new(count - 1), count)
        });
        whole.0.start();
        whole
    }

    fn wanted() -> usize {
        let said = std::env::var("ONNXC_THREADS").ok().and_then(|count| count.parse().ok());
        said.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    pub fn count() -> usize {
        pool(wanted).1
    }

    pub fn start(count: usize) -> bool {
        pool(|| count).1 == count
    }

    /// Runs all parts, each once.
    pub fn run(parts: usize, work: &(dyn Fn(usize) + Sync)) {
        #[cfg(any(test, feature = "portable-scope"))]
        let work = &at_callers_level(work);
        granularity::shares();
        pool(wanted).0.run(parts, work);
    }

    /// Makes the other threads use the SIMD level that a scope forces on the caller.
    #[cfg(any(test, feature = "portable-scope"))]
    fn at_callers_level(work: &(dyn Fn(usize) + Sync)) -> impl Fn(usize) + Sync {
        let level = crate::simd::forced_level();
        move |i| crate::simd::at_level(level, || work(i))
    }

    /// Returns whether there are several threads, and any work was worth them.
    pub fn is_shared() -> bool {
        POOL.get().is_some_and(|pool| pool.1 > 1)
    }

    /// Returns the number of parts for `units` units that are worth `cost` elements together.
    pub fn parts(units: usize, cost: usize) -> usize {
        let most = units.min(cost / granularity::grain());
        if most <= 1 || AT_WORK.get() {
            return 1;
        }
        most.min(count())
    }

    pub struct Scratch<'a, T> {
        planned: Mutex<Option<&'a mut [T]>>,
        len: usize,
    }

    /// An element type of scratch memory, which each thread keeps some of.
    pub trait Own: Copy + Default + Send + 'static {
        /// The thread's own scratch memory.
        const OWN: &'static LocalKey<RefCell<Vec<Self>>>;
    }

    macro_rules! own {
        ($($type:ty),*) => {
            $(impl Own for $type {
                const OWN: &'static LocalKey<RefCell<Vec<$type>>> = {
                    std::thread_local! {
                        static OWN: RefCell<Vec<$type>> = const { RefCell::new(Vec::new()) };
                    }
                    &OWN
                };
            })*
        };
    }
    own!(f32, f64, u8);

    impl<'a, T: Own> Scratch<'a, T> {
        /// Wraps the memory that the caller planned.
        pub fn new(planned: &'a mut [T]) -> Scratch<'a, T> {
            Scratch { len: planned.len(), planned: Mutex::new(Some(planned)) }
        }

        /// Calls `part` with scratch memory: the planned memory for one thread at a time, the
        /// thread's own for others.
        pub fn with(&self, part: impl FnOnce(&mut [T])) {
            let planned = self.planned.lock().map_or(None, |mut planned| planned.take());
            if let Some(planned) = planned {
                part(&mut *planned);
                let _ = self.planned.lock().map(|mut free| *free = Some(planned));
                return;
            }
            // The part may itself use scratch memory on this thread, so the memory is taken out
            // meanwhile.
            let mut own = T::OWN.take();
            own.resize(own.len().max(self.len), T::default());
            part(&mut own[..self.len]);
            T::OWN.set(own);
        }
    }
}
