//! Work shared among threads, with the feature `threads`. Results are the same for any number of
//! them: what a thread gets is a part of the output, and each element is computed by one thread as
//! it would be without others.

#[cfg(feature = "threads")]
mod pool;
#[cfg(all(test, feature = "threads"))]
mod same;
#[cfg(all(test, feature = "threads"))]
mod tests;

/// What a part of a kernel's work must be worth, in elements that are read, computed and written:
/// about a microsecond, more than it takes to hand it over.
#[cfg(feature = "threads")]
const GRAIN: usize = 1 << 12;
/// So many multiplications and additions of a product of matrices take as long as one element.
pub(crate) const PRODUCTS: usize = 16;

/// How many threads share work, the caller's own included: 1 without the feature `threads`.
///
/// With it, as many as the environment variable `ONNXC_THREADS` says, or else as the system has
/// processors for, unless [`start`] came first.
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
#[cfg(not(feature = "threads"))]
#[inline(always)]
pub(crate) fn share<T>(y: &mut [T], _: usize, _: usize, part: impl Fn(usize, &mut [T])) {
    part(0, y);
}

#[cfg(feature = "threads")]
pub(crate) use shared::share;

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
    use super::{GRAIN, pool::Pool};
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

    pub(crate) fn share<T: Send>(
        y: &mut [T],
        unit: usize,
        cost: usize,
        part: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let units = y.len().div_ceil(unit.max(1));
        let parts = (cost / GRAIN).min(units);
        let count = if parts > 1 && !is_alone() { count() } else { 1 };
        if count == 1 {
            return part(0, y);
        }
        let each = units.div_ceil(parts.min(count));
        let chunks = Mutex::new(y.chunks_mut(each * unit).enumerate());
        let work = |_| {
            let next = chunks.lock().map_or(None, |mut chunks| chunks.next());
            if let Some((i, chunk)) = next {
                part(i * each, chunk);
            }
        };
        pool(wanted).0.run(units.div_ceil(each), &work);
    }

    #[cfg(not(test))]
    const fn is_alone() -> bool {
        false
    }

    #[cfg(test)]
    fn is_alone() -> bool {
        super::same::ALONE.get()
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
