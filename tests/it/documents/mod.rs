//! Runs the commands and the Rust code of `README.md` and the book, and checks links and form.
//!
//! The blocks of a page run in order, in one folder. Comments before a block control how:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- files: model.onnx=tests/models/mlp.onnx -->` | copies files of the repository there |
//! | `<!-- file: src/main.rs -->` | the block is a file of the package in the folder |
//! | `<!-- skip: reason -->` | the block does not run |
//!
//! A block of the language `sh` has a command per line, and `console` also has what the commands
//! print. Rust code that is not a file is the body of a function that returns a `Result`.
//!
//! `cargo` is emulated, because the crates are built already. `ONNXC_DOCUMENTS=cargo` runs cargo
//! itself, and also the commands that name a package of the workspace.

mod form;
mod package;
mod page;
mod shell;

use crate::programs::{root, scratch};
use page::{Block, Page, Role};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The pages whose blocks are run.
fn pages() -> Vec<Page> {
    let mut paths = markdown(&root().join("docs"));
    paths.push(root().join("README.md"));
    paths.into_iter().map(Page::read).collect()
}

/// The Markdown files below a folder, sorted.
fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is checked in").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(markdown(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The folder in which a page's blocks run.
fn folder(page: &Page) -> PathBuf {
    let name: Vec<_> = page.name.iter().map(|part| part.to_string_lossy()).collect();
    scratch(&format!("document_{}", name.join("_").trim_end_matches(".md")))
}

#[test]
fn the_blocks_of_the_pages_run() {
    let pages = pages();
    let pages: Vec<(&Page, PathBuf)> = pages
        .iter()
        .filter(|page| page.blocks.iter().any(|block| block.role != Role::Text))
        .map(|page| (page, folder(page)))
        .collect();
    let next = AtomicUsize::new(0);
    let run_some = || {
        while let Some((page, folder)) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            shell::run_page(page, folder);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (1..threads).for_each(|_| drop(scope.spawn(run_some)));
        run_some();
    });
    let snippets: Vec<(&Page, &Path, Vec<&Block>)> = pages
        .iter()
        .map(|(page, folder)| (*page, folder.as_path(), page.snippets()))
        .filter(|(_, _, snippets)| !snippets.is_empty())
        .collect();
    package::run_snippets(&snippets);
}
