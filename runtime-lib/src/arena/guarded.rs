//! An allocator for tests that puts each allocation beside a page that nobody may access. With the
//! environment variable `ONNXC_GUARD`, a kernel that reads or writes outside its slices, or memory
//! that was freed, ends the program. Without it, it is the system's allocator.

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use std::alloc::{GlobalAlloc, Layout, System};

/// The allocator.
pub struct Guarded;

#[global_allocator]
static ALLOCATOR: Guarded = Guarded;

/// The size of a page.
const PAGE: usize = 4096;
/// The size of the range of addresses, none of which is given out twice.
const RANGE: usize = 1 << 43;
/// The most guarded allocations at a time, or nearly: the system limits the number of mapped parts.
/// Others come from the system's allocator.
const MOST: usize = 20_000;

/// The start of the range; 0 before the first allocation, and [`UNWANTED`] without the variable.
static START: AtomicUsize = AtomicUsize::new(0);
const UNWANTED: usize = 1;
/// The number of bytes of the range that were given out.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The number of guarded allocations that were not freed.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Returns the start of the range, if guards are wanted.
fn start() -> Option<usize> {
    let start = START.load(Relaxed);
    let found = if start == 0 { reserve() } else { start };
    (found != UNWANTED).then_some(found)
}

/// Reserves the range if the environment variable is set.
#[cold]
fn reserve() -> usize {
    // SAFETY: the name ends with a zero, and tests do not change the environment.
    let wanted = unsafe { !libc::getenv(c"ONNXC_GUARD".as_ptr()).is_null() };
    let found = if wanted { map() } else { UNWANTED };
    // Another thread may be first. Its range is used, and this one stays empty.
    START.compare_exchange(0, found, Relaxed, Relaxed).map_or_else(|first| first, |_| found)
}

/// Maps a range of addresses without memory.
fn map() -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses changes no other memory.
    let found = unsafe { libc::mmap(null_mut(), RANGE, libc::PROT_NONE, flags, -1, 0) };
    if found == libc::MAP_FAILED { UNWANTED } else { found.addr() }
}

/// Returns the pages of an allocation of `size` bytes, and one more.
fn span(size: usize) -> usize {
    size.next_multiple_of(PAGE) + PAGE
}

/// Returns memory between two guards; `None` if there is none left.
fn between_guards(start: usize, layout: Layout) -> Option<*mut u8> {
    let (size, align) = (layout.size(), layout.align());
    if align > PAGE || size > RANGE / 1024 || LIVE.load(Relaxed) >= MOST {
        return None;
    }
    let at = USED.fetch_add(span(size), Relaxed);
    if at + span(size) > RANGE - PAGE {
        return None;
    }
    // The page before is the guard of the allocation before, or never given out.
    let (first, bytes) = (start + PAGE + at, span(size) - PAGE);
    let base = core::ptr::with_exposed_provenance_mut::<u8>(first);
    // SAFETY: these pages of the range belong to no other allocation.
    let failed = unsafe { libc::mprotect(base.cast(), bytes, PROT) } != 0;
    if failed {
        return None;
    }
    LIVE.fetch_add(1, Relaxed);
    // Most allocations end at a guard, and the others start at one.
    let gap = if at / PAGE % 4 == 3 { 0 } else { (bytes - size) / align * align };
    Some(base.wrapping_add(gap))
}

const PROT: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

// SAFETY: memory is either the system allocator's, or pages of the range that belong to one
// allocation only and are aligned as `between_guards` computes. `dealloc` tells them by their
// addresses.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(memory) = start().and_then(|start| between_guards(start, layout)) {
            return memory;
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let first = memory.addr() / PAGE * PAGE;
        if !start().is_some_and(|start| (start..start + RANGE).contains(&first)) {
            // SAFETY: the caller upholds the same contract, and the memory is not of the range.
            return unsafe { System.dealloc(memory, layout) };
        }
        LIVE.fetch_sub(1, Relaxed);
        let (base, bytes) =
            (memory.wrapping_sub(memory.addr() - first), span(layout.size()) - PAGE);
        // SAFETY: the pages belong to this allocation, which nobody uses any more.
        unsafe {
            libc::madvise(base.cast(), bytes, libc::MADV_DONTNEED);
            libc::mprotect(base.cast(), bytes, libc::PROT_NONE);
        }
    }
}

#[test]
fn memory_is_beside_a_guard_on_request() {
    // A separate process, because the memory that it reads ends it.
    const READ: &str = "ONNXC_GUARD_READ";
    if std::env::var_os(READ).is_some() {
        let kept = std::vec![1_u8; 100];
        let reach = if start().is_some() { PAGE } else { 0 };
        // SAFETY: a guard, if there are any, ends the program, which is what the test expects.
        std::println!("{}", unsafe { kept.as_ptr().add(reach).read_volatile() });
        return;
    }
    let program = std::env::current_exe().expect("a test is a program");
    let run = |guarded: bool| {
        let mut command = std::process::Command::new(&program);
        command.args(["memory_is_beside_a_guard_on_request", "--test-threads=1"]).env(READ, "1");
        if guarded {
            command.env("ONNXC_GUARD", "1");
        } else {
            command.env_remove("ONNXC_GUARD");
        }
        command.output().expect("the program runs").status.success()
    };
    assert_eq!((run(false), run(true)), (true, false));
}
