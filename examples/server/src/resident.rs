//! The memory of this process.

use std::fs;

/// Returns the resident size in bytes, or 0 if the system does not report it.
pub fn bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |kilobytes: usize| kilobytes * 1024)
}
