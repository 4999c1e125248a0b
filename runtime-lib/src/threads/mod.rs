//! Work shared among threads, with the feature `threads`. Results are the same for any number of
//! them: what a thread gets is a part of the output, and each element is computed by one thread as
//! it would be without others.

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

/// What a part of a kernel's work must be worth, in elements that are read, computed and written:
/// about a microsecond, more than it takes to hand it over to a thread that is near.
#[cfg(feature = "threads")]
const GRAIN: usize = 1 << 12;
/// So many multiplications and additions of a product of matrices take as long as one element.
pub(crate) const MACS_PER_ELEMENT: usize = 16;

/// How many threads share work, the caller's own included: 1 without the feature `threads`.
///
/// With it, as many as the environment variable `ONNXC_THREADS` says, or else as the system has
/// processors for, unless `start` came first.
pub fn count() -> usize {
    #[cfg(feature = "threads")]
    return shared::count();
    #[cfg(not(feature = "threads"))]
    1
}

/// Settles that `count` threads share work, the caller's own included. Returns whether they do:
/// it is settled once, at the latest when a kernel first shares its work.
#[cfg(feature = "threads")]
pub fn start(count: usize) -> bool {
    shared::start(count)
}

/// Hands out the units of an output, so many elements each (the last may be shorter), in parts that
/// threads fill at the same time. `part` is told at which unit its part starts. `cost` is what all
/// is worth, in elements.
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

/// What several threads may use: anything, where there is one.
#[cfg(not(feature = "threads"))]
pub(crate) trait MaybeSync {}
#[cfg(not(feature = "threads"))]
impl<T> MaybeSync for T {}

#[cfg(feature = "threads")]
pub(crate) use core::marker::Sync as MaybeSync;

/// How a model's work is best shared. There is nothing to find out without threads.
#[cfg(not(feature = "threads"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Granularity;

#[cfg(not(feature = "threads"))]
impl Granularity {
    /// Nothing is known.
    pub const fn new() -> Granularity {
        Granularity
    }

    /// Takes note that a run starts.
    #[inline(always)]
    pub fn start(&mut self) {}
}

#[cfg(feature = "threads")]
pub(crate) use granularity::Granularity;

/// Takes note that work is done, in however many parts.
#[cfg(not(feature = "threads"))]
#[inline(always)]
fn done() {}

/// In how many parts work is shared.
#[cfg(not(feature = "threads"))]
#[inline(always)]
fn parts(_: usize, _: usize) -> usize {
    1
}

/// Does all parts.
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

/// Scratch memory of a caller who planned for one thread. Others have their own.
#[cfg(not(feature = "threads"))]
pub(crate) struct Scratch<'a, T>(core::cell::RefCell<&'a mut [T]>);

#[cfg(not(feature = "threads"))]
impl<'a, T> Scratch<'a, T> {
    /// What the caller planned.
    #[inline(always)]
    pub fn new(planned: &'a mut [T]) -> Scratch<'a, T> {
        Scratch(planned.into())
    }

    /// Scratch memory for one part.
    #[inline(always)]
    pub fn with(&self, part: impl FnOnce(&mut [T])) {
        part(&mut self.0.borrow_mut());
    }
}

/// What scratch memory is made of.
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

    /// More do not help, and an accident in an environment variable does no harm.
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

    /// Does all parts, each once.
    pub fn run(parts: usize, work: &(dyn Fn(usize) + Sync)) {
        #[cfg(test)]
        let work = &at_callers_level(work);
        granularity::shares();
        pool(wanted).0.run(parts, work);
    }

    /// Tests go through the levels of a processor.
    #[cfg(test)]
    fn at_callers_level(work: &(dyn Fn(usize) + Sync)) -> impl Fn(usize) + Sync {
        let level = crate::simd::forced_level();
        move |i| crate::simd::at_level(level, || work(i))
    }

    /// Whether there are several threads, and any work was worth asking for them.
    pub fn is_shared() -> bool {
        POOL.get().is_some_and(|pool| pool.1 > 1)
    }

    /// In how many parts work is shared, so many units that are worth so many elements.
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

    /// What scratch memory is made of: each thread keeps some.
    pub trait Own: Copy + Default + Send + 'static {
        /// The thread's own.
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
        /// What the caller planned.
        pub fn new(planned: &'a mut [T]) -> Scratch<'a, T> {
            Scratch { len: planned.len(), planned: Mutex::new(Some(planned)) }
        }

        /// Scratch memory for one part.
        pub fn with(&self, part: impl FnOnce(&mut [T])) {
            let planned = self.planned.lock().map_or(None, |mut planned| planned.take());
            if let Some(planned) = planned {
                part(&mut *planned);
                let _ = self.planned.lock().map(|mut free| *free = Some(planned));
                return;
            }
            // Work that a part hands on is done by the thread itself, with memory taken apart.
            let mut own = T::OWN.take();
            own.resize(own.len().max(self.len), T::default());
            part(&mut own[..self.len]);
            T::OWN.set(own);
        }
    }
}
