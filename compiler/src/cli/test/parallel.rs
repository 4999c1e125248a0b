//! Runs jobs in parallel, as far as the memory of the machine allows.

use std::{
    fs,
    path::Path,
    sync::{Condvar, Mutex, PoisonError},
    thread,
};

/// The size of the stack of a job, in bytes. Debug builds need much of it.
const STACK: usize = 256 << 20;

/// The memory that is assumed to be free if the system does not say, in bytes.
const UNKNOWN_MEMORY: u64 = 4 << 30;

/// The state of all jobs.
struct State<R, F> {
    /// The first item that no thread has taken.
    next: usize,
    /// The estimated memory of the running jobs, in bytes.
    used: u64,
    results: Vec<Option<R>>,
    /// The number of results that `each` has seen.
    seen: usize,
    each: F,
}

/// Runs `job` for each item, on all processors, while the estimated memory of the running jobs fits
/// the machine. Calls `each` with the results, in the order of the items, and returns them.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    bytes: impl Fn(&T) -> u64 + Sync,
    job: impl Fn(usize, &T) -> R + Sync,
    each: impl FnMut(usize, &R) + Send,
) -> Vec<R> {
    let memory = available_memory().unwrap_or(UNKNOWN_MEMORY);
    let results = items.iter().map(|_| None).collect();
    let state = Mutex::new(State { next: 0, used: 0, results, seen: 0, each });
    let changed = Condvar::new();
    let work = || {
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut now = lock();
            let at = now.next;
            let Some(item) = items.get(at) else { return };
            let need = bytes(item);
            // One job runs in any case.
            if now.used > 0 && now.used.saturating_add(need) > memory {
                drop(changed.wait(now).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            (now.next, now.used) = (at + 1, now.used.saturating_add(need));
            drop(now);
            let result = job(at, item);
            let mut now = lock();
            now.used -= need;
            now.results[at] = Some(result);
            now.show();
            drop(now);
            changed.notify_all();
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            let thread = thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, work).expect("the system can start a thread");
        }
    });
    let State { results, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|result| result.expect("every job has run")).collect()
}

impl<R, F: FnMut(usize, &R)> State<R, F> {
    /// Calls `each` with the results up to the first one that is missing.
    fn show(&mut self) {
        while let Some(Some(result)) = self.results.get(self.seen) {
            (self.each)(self.seen, result);
            self.seen += 1;
        }
    }
}

/// Returns the size of the files in a folder, without those in subfolders.
pub fn file_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
    files.filter(|file| file.is_file()).map(|file| file.len()).sum()
}

/// Returns the memory that programs can still use, in bytes.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        let mut shown = Vec::new();
        let job = |i: usize, item: &u64| (i as u64) * 100 + item;
        let results = map(&items, |_| 1, job, |i, &result| shown.push((i, result)));
        let expected: Vec<u64> = (0..50).map(|i| i * 101).collect();
        assert_eq!(results, expected);
        assert_eq!(shown, expected.iter().copied().enumerate().collect::<Vec<_>>());
    }

    #[test]
    fn jobs_that_need_more_memory_than_there_is_run_one_by_one() {
        let running = std::sync::atomic::AtomicUsize::new(0);
        let job = |_: usize, (): &()| {
            let before = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            thread::yield_now();
            running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            before
        };
        let others = map(&[(); 20], |()| u64::MAX / 2, job, |_, _| {});
        assert!(others.iter().all(|&others| others == 0), "{others:?}");
    }
}
