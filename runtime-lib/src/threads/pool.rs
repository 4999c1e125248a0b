//! Threads that wait for work, and share it with the one that has it.

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

/// So long a thread looks out for more work before it sleeps: kernels of one model follow each
/// other faster.
pub(super) const PATIENCE: Duration = Duration::from_micros(100);
/// So often it looks before it asks for the time.
const LOOKS: usize = 64;

std::thread_local! {
    /// Whether this thread does a part of a job: it shares no work meanwhile.
    pub(super) static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

#[derive(Clone, Copy)]
struct Job {
    work: &'static Work<'static>,
}

/// Threads beside the caller's own.
pub struct Pool {
    /// Which job is open, and how far: see [`Iteration`].
    iteration: AtomicU64,
    /// How many parts of it are done, beside the first.
    done: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    /// What a part that panicked left.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Held by the thread whose job is open.
    owner: Mutex<()>,
    asleep: Box<[AtomicBool]>,
    threads: OnceLock<Box<[Thread]>>,
}

// SAFETY: `job` is written by the thread that holds `owner`, while no part is open or under way; it
// is read only by threads that have claimed a part, which the write comes before (`iteration`).
unsafe impl Sync for Pool {}

/// The state of a job in one word: its number, the next part, and how many parts there are.
#[derive(Clone, Copy)]
struct Iteration(u64);

impl Iteration {
    const BITS: u32 = 16;

    /// Of the job after this one. The first part is its owner's.
    fn first(self, parts: usize) -> Iteration {
        debug_assert!(parts < 1 << Iteration::BITS);
        let number = (self.0 >> (2 * Iteration::BITS)).wrapping_add(1);
        Iteration((number << (2 * Iteration::BITS)) | (1 << Iteration::BITS) | parts as u64)
    }

    fn parts(self) -> usize {
        self.0 as usize & ((1 << Iteration::BITS) - 1)
    }

    fn next(self) -> usize {
        (self.0 >> Iteration::BITS) as usize & ((1 << Iteration::BITS) - 1)
    }

    /// After the next part is taken; nothing where all are.
    fn taken(self) -> Option<Iteration> {
        (self.next() < self.parts()).then_some(Iteration(self.0 + (1 << Iteration::BITS)))
    }
}

impl Pool {
    /// A pool whose threads are yet to be started.
    pub fn new(threads: usize) -> Pool {
        Pool {
            iteration: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            owner: Mutex::new(()),
            asleep: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            threads: OnceLock::new(),
        }
    }

    /// Starts the threads, as far as the system allows.
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

    /// Does all parts, each once, and returns when they are done; what a part has of an output, no
    /// other has, by that. A thread that comes while another one's work is under way, or from within
    /// such work, does its own alone.
    pub fn run(&self, parts: usize, work: &Work<'_>) {
        let Ok(owner) = self.owner.try_lock() else { return (0..parts).for_each(work) };
        // SAFETY: the reference is used by threads that have claimed a part alone, and this
        // function returns when all parts that can be claimed are done.
        let shared = unsafe { transmute::<&Work<'_>, &'static Work<'static>>(work) };
        // SAFETY: all parts of the last job are done, so no thread reads this.
        unsafe { *self.job.get() = Some(Job { work: shared }) };
        self.done.store(0, Ordering::Relaxed);
        let iteration = Iteration(self.iteration.load(Ordering::Relaxed)).first(parts);
        self.iteration.store(iteration.0, Ordering::SeqCst);
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

    /// Whether so many parts beside the first are done, or will be soon.
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

    /// Does parts of the open job, as long as there are any.
    fn take_parts(&self) {
        while let Some(i) = self.claim() {
            // SAFETY: the job was written before the part could be claimed, and the next one is not
            // before this part is done.
            let Some(job) = (unsafe { *self.job.get() }) else { return };
            self.do_part(i, job.work);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn do_part(&self, i: usize, work: &Work<'_>) {
        AT_WORK.set(true);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(i))) {
            // What another part left is not dropped, for that may panic, too, while others are under way.
            let _ = self.panic.lock().map(|mut kept| mem::forget(kept.replace(panic)));
        }
        AT_WORK.set(false);
    }

    fn claim(&self) -> Option<usize> {
        let mut iteration = Iteration(self.iteration.load(Ordering::Acquire));
        loop {
            let taken = iteration.taken()?;
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self.iteration.compare_exchange_weak(iteration.0, taken.0, order.0, order.1) {
                Ok(_) => return Some(iteration.next()),
                Err(now) => iteration = Iteration(now),
            }
        }
    }

    fn is_open(&self) -> bool {
        Iteration(self.iteration.load(Ordering::SeqCst)).taken().is_some()
    }

    /// What a thread of the pool does.
    fn serve(&self, me: usize) {
        loop {
            let looked_out = self.look_out();
            if !looked_out {
                self.sleep(me);
            }
            self.take_parts();
        }
    }

    /// Whether work comes soon.
    fn look_out(&self) -> bool {
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
            // First the flag, then the look: who opens a job does it the other way round, so that
            // one of the two sees the other.
            asleep.store(true, Ordering::SeqCst);
            if self.is_open() {
                return asleep.store(false, Ordering::Relaxed);
            }
            thread::park();
        }
    }
}
