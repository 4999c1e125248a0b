//! Golden files. `UPDATE=1 cargo test` rewrites them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Compares `found` with the file at `path`.
pub fn check(path: &Path, found: &[u8]) {
    let expected = fs::read(path).unwrap_or_default();
    if expected == found {
        return;
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(path, found).expect("the sources can be written");
        return;
    }
    let Ok(found) = str::from_utf8(found) else {
        panic!("{} differs; `UPDATE=1 cargo test` rewrites it", path.display());
    };
    let expected = String::from_utf8_lossy(&expected);
    let same = expected.lines().zip(found.lines()).take_while(|(a, b)| a == b).count();
    let line = same + 1;
    panic!(
        "{} differs from line {line} on; `UPDATE=1 cargo test` rewrites it. Found:\n{found}",
        path.display()
    );
}

/// Lists the files in a folder whose names end in `end`, sorted.
pub fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is checked in");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    assert!(!files.is_empty(), "there is no `{end}` in {}", folder.display());
    files
}
