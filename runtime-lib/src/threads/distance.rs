//! How far threads are from one another. Cores that share a cache hear of work in a tenth of a
//! microsecond; between others, of a virtual machine say, it takes several times as long, and so does
//! each number that one reads after the other wrote it.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// Nanoseconds between cores that share a cache: what is assumed before anything is known.
const NEAR: u32 = 100;
/// Longer takes only a thread that was kept from coming.
const FAR: u32 = 10_000;
/// Of so many jobs, the first few are shared as among near threads, whatever is known, so that
/// threads that have come nearer are noticed: the first wakes those that sleep, which takes some jobs.
const JOBS: u32 = 4096;
const TRIED: u32 = 32;

/// From opening a job until another thread has taken a part: a middle of what was seen so far.
///
/// It lies in lines of its own: threads that look out for work do not read them.
#[repr(align(128))]
pub struct Distance {
    nanos: AtomicU32,
    jobs: AtomicU32,
}

impl Distance {
    /// Nothing was seen yet.
    pub const fn new() -> Distance {
        Distance { nanos: AtomicU32::new(NEAR), jobs: AtomicU32::new(0) }
    }

    /// How many times as far as near ones threads are, for the job that comes: 1 at least.
    pub fn ratio(&self) -> usize {
        let job = self.jobs.fetch_add(1, Ordering::Relaxed) % JOBS;
        let known = (self.nanos.load(Ordering::Relaxed) + NEAR / 2) / NEAR;
        if job < TRIED { 1 } else { known as usize }
    }

    /// Takes note of what a thread saw: a step towards it, if it is another one.
    pub fn note(&self, seen: Duration) {
        let known = self.nanos.load(Ordering::Relaxed);
        let seen = seen.as_nanos().min(FAR.into()) as u32;
        let step = known / 8;
        if seen > known + 2 * step {
            self.nanos.store(known + step, Ordering::Relaxed);
        } else if seen + 2 * step < known {
            self.nanos.store((known - step).max(NEAR), Ordering::Relaxed);
        }
    }
}
