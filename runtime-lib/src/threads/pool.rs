//! A pool of threads that wait for work and share it with the calling thread.

use core::any::Any;
use core::cell::{Cell, UnsafeCell};
use core::hint::spin_loop;
use core::mem::{self, transmute};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;
use std::vec::Vec;

/// The time that a thread spins for more work before it sleeps: the kernels of a model follow each
/// other faster.
pub(super) const PATIENCE: Duration = Duration::from_micros(100);
/// The number of checks for work between two reads of the clock.
const LOOKS: usize = 64;

std::thread_local! {
    /// Whether this thread runs a part of a job. It then shares no work of its own.
    pub(super) static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

#[derive(Clone, Copy)]
struct Job {
    work: &'static Work<'static>,
}

/// The threads that share work with the caller.
pub struct Pool {
    /// The state of the open job, a [`JobState`].
    state: AtomicU64,
    /// The number of parts that are complete, except the first.
    done: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    /// The payload of a part that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The lock that the thread whose job is open holds.
    owner: Mutex<()>,
    asleep: Box<[AtomicBool]>,
    threads: OnceLock<Box<[Thread]>>,
}

// SAFETY: only the thread that holds `owner` writes `job`, while no part is open or running. Only
// threads that claimed a part read it, and the claim synchronizes with the write (`state`).
unsafe impl Sync for Pool {}

/// The state of a job in one word: its number, the next part, and the number of parts.
#[derive(Clone, Copy)]
struct JobState(u64);

impl JobState {
    const BITS: u32 = 16;

    /// Returns the state of the job after this one. Its owner runs part 0, so part 1 is next.
    fn first(self, parts: usize) -> JobState {
        debug_assert!(parts < 1 << JobState::BITS);
        let number = (self.0 >> (2 * JobState::BITS)).wrapping_add(1);
        JobState((number << (2 * JobState::BITS)) | (1 << JobState::BITS) | parts as u64)
    }

    fn parts(self) -> usize {
        self.0 as usize & ((1 << JobState::BITS) - 1)
    }

    fn next(self) -> usize {
        (self.0 >> JobState::BITS) as usize & ((1 << JobState::BITS) - 1)
    }

    /// Returns the state after the next part is claimed; `None` if all are claimed.
    fn claim_next(self) -> Option<JobState> {
        (self.next() < self.parts()).then_some(JobState(self.0 + (1 << JobState::BITS)))
    }
}

impl Pool {
    /// Creates a pool without starting its threads.
    pub fn new(threads: usize) -> Pool {
        Pool {
            state: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            owner: Mutex::new(()),
            asleep: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            threads: OnceLock::new(),
        }
    }

    /// Starts the threads, unless the system refuses.
    pub fn start(&'static self) {
        let start = |me| {
            let thread = thread::Builder::new().name("onnxc".into());
            thread.spawn(move || self.serve(me)).ok()
        };
        self.threads.get_or_init(|| {
            let threads = (0..self.asleep.len()).map_while(start);
            threads.map(|handle| handle.thread().clone()).collect::<Vec<_>>().into()
        });
    }

    /// Runs all parts, each once, and returns when they are complete. A thread that calls this
    /// while another thread's job is open, or from within a part, runs all of its parts itself.
    pub fn run(&self, parts: usize, work: &Work<'_>) {
        let Ok(owner) = self.owner.try_lock() else { return (0..parts).for_each(work) };
        // SAFETY: only threads that claimed a part use the reference, and this function returns
        // after every part is complete.
        let shared = unsafe { transmute::<&Work<'_>, &'static Work<'static>>(work) };
        // SAFETY: all parts of the last job are complete and `owner` is held, so no thread accesses
        // `job`.
        unsafe { *self.job.get() = Some(Job { work: shared }) };
        self.done.store(0, Ordering::Relaxed);
        let state = JobState(self.state.load(Ordering::Relaxed)).first(parts);
        self.state.store(state.0, Ordering::SeqCst);
        self.wake(parts - 1);
        self.do_part(0, work);
        self.take_parts();
        while !self.is_done(parts - 1) {
            thread::yield_now();
        }
        let panic = self.panic.lock().map_or(None, |mut panic| panic.take());
        if let Some(panic) = panic {
            drop(owner);
            resume_unwind(panic);
        }
    }

    /// Returns whether `parts` parts besides the first are complete, after a short wait.
    fn is_done(&self, parts: usize) -> bool {
        (0..LOOKS).any(|_| {
            let done = self.done.load(Ordering::Acquire) >= parts;
            if !done {
                spin_loop();
            }
            done
        })
    }

    fn wake(&self, most: usize) {
        let threads = self.threads.get().map_or(&[][..], |threads| threads);
        for (thread, asleep) in threads.iter().zip(&self.asleep).take(most) {
            if asleep.swap(false, Ordering::SeqCst) {
                thread.unpark();
            }
        }
    }

    /// Runs parts of the open job until none is left.
    fn take_parts(&self) {
        while let Some(i) = self.claim() {
            // SAFETY: `job` was written before the part could be claimed, and is not written again
            // before this part is complete.
            let Some(job) = (unsafe { *self.job.get() }) else { return };
            self.do_part(i, job.work);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn do_part(&self, i: usize, work: &Work<'_>) {
        AT_WORK.set(true);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(i))) {
            // An earlier payload is not dropped, because its destructor may panic while other parts
            // run.
            let _ = self.panic.lock().map(|mut kept| mem::forget(kept.replace(panic)));
        }
        AT_WORK.set(false);
    }

    fn claim(&self) -> Option<usize> {
        let mut state = JobState(self.state.load(Ordering::Acquire));
        loop {
            let claimed = state.claim_next()?;
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self.state.compare_exchange_weak(state.0, claimed.0, order.0, order.1) {
                Ok(_) => return Some(state.next()),
                Err(now) => state = JobState(now),
            }
        }
    }

    fn is_open(&self) -> bool {
        JobState(self.state.load(Ordering::SeqCst)).claim_next().is_some()
    }

    /// The loop of a thread of the pool.
    fn serve(&self, me: usize) {
        loop {
            let has_work = self.spin_for_work();
            if !has_work {
                self.sleep(me);
            }
            self.take_parts();
        }
    }

    /// Spins for a while; returns whether there is work.
    fn spin_for_work(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if self.is_open() {
                    return true;
                }
                spin_loop();
            }
        }
        false
    }

    /// Sleeps until there is work.
    fn sleep(&self, me: usize) {
        let asleep = &self.asleep[me];
        loop {
            // This thread sets the flag before it checks for work; a thread that opens a job writes
            // the job before it reads the flags. So one of the two sees the other's write.
            asleep.store(true, Ordering::SeqCst);
            if self.is_open() {
                return asleep.store(false, Ordering::Relaxed);
            }
            thread::park();
        }
    }
}
