//! The rules of the house that no compiler checks.

use crate::programs::root;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The rooms of the compiler from the top down, each with those below it that it may enter; all
/// may enter the base, and themselves.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "builder", "check", "emit", "export", "host", "import", "ir", "ops", "options",
            "passes", "plan", "train",
        ],
    ),
    ("train", &["check", "import", "ir", "ops", "passes"]),
    ("builder", &["emit", "import", "ir", "options", "passes", "plan"]),
    ("options", &["emit", "import", "passes", "plan"]),
    ("export", &["import", "ir", "ops"]),
    ("import", &["check", "ir", "ops", "plan"]),
    ("check", &[]),
    ("passes", &["host", "ir", "ops", "plan"]),
    ("emit", &["plan"]),
    ("host", &["plan"]),
    ("ops", &["ir", "plan"]),
    ("ir", &["plan"]),
    ("plan", &[]),
];

/// What all may use, and what knows nothing of the rooms.
const BASE: &[&str] = &[
    "arena", "array", "diag", "dim", "domain", "dtype", "file", "ident", "mapping", "tensor", "ty",
    "value",
];

/// Every file of Rust below a folder that git would list.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is checked in").flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("sources are UTF-8")
}

/// The part of a file before its tests.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests").map_or(text, |(code, _)| code)
}

/// What stands in front of a room in a file of that path inside the library: the binary's files
/// call it by its name.
fn entrances(inside: &Path, room: &str) -> [String; 2] {
    let module = inside.with_extension("");
    let depth = module.iter().filter(|name| *name != "mod").count();
    let library = if room == "cli" { "onnxc::" } else { "crate::" };
    [library.to_owned(), "super::".repeat(depth)]
}

/// The names that stand after `entrance` in code, those of a list in braces included.
fn rooms_entered<'c>(code: &'c str, entrance: &str) -> Vec<&'c str> {
    let word = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let mut rooms = Vec::new();
    for (at, _) in code.match_indices(entrance) {
        let rest = &code[at + entrance.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            rooms.push(&rest[..word(rest).unwrap_or(rest.len())]);
            continue;
        };
        let mut depth = 1;
        let mut start = Some(0);
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => start = Some(i + 1),
                c if depth == 1 && c.is_alphabetic() && start.is_some() => {
                    start = None;
                    rooms.push(&list[i..i + word(&list[i..]).unwrap_or(0)]);
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    rooms
}

#[test]
fn imports_point_downward() {
    let folder = root().join("compiler/src");
    let mut wrong = Vec::new();
    for path in sources(&folder) {
        let inside = path.strip_prefix(&folder).expect("it lies in the folder");
        let room = inside.iter().next().expect("it has a name").to_string_lossy();
        let room = room.trim_end_matches(".rs");
        let below = match ROOMS.iter().find(|(name, _)| *name == room) {
            Some((_, below)) => *below,
            None if BASE.contains(&room) => &[],
            // `lib.rs` and `main.rs` put the rooms together.
            None => continue,
        };
        let text = text(&path);
        let code = without_tests(&text);
        let entrances = entrances(inside, room);
        for entered in entrances.iter().flat_map(|entrance| rooms_entered(code, entrance)) {
            let is_room = ROOMS.iter().any(|(name, _)| *name == entered);
            if is_room && entered != room && !below.contains(&entered) {
                wrong.push(format!("{} enters {entered}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_room_is_entered_by_several_ways() {
    let entered = |inside: &str, room: &str, code: &'static str| {
        let entrances = entrances(Path::new(inside), room);
        entrances.iter().flat_map(|entrance| rooms_entered(code, entrance)).collect::<Vec<_>>()
    };
    let code = "use onnxc::{Options, plan::Plan};";
    assert_eq!(entered("cli/run.rs", "cli", code), ["Options", "plan"]);
    assert_eq!(entered("ir/mod.rs", "ir", "crate::dim::Dim; super::ops::find"), ["dim", "ops"]);
    let code = "super::super::passes::fold; super::super::super::emit::write";
    assert_eq!(entered("ops/pool/mod.rs", "ops", code)[0], "passes");
    assert_eq!(entered("ops/pool/wide.rs", "ops", code), ["emit"]);
}

#[test]
fn files_can_be_read_at_one_sitting() {
    for folder in ["compiler/src", "runtime-lib/src", "macros/src", "tests/it"] {
        for path in sources(&root().join(folder)) {
            let lines = text(&path).lines().count();
            assert!(lines <= 550, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn unsafe_lives_in_few_corners() {
    let corners = [
        "compiler/src/mapping.rs",
        "runtime-lib/src/arena",
        "runtime-lib/src/microkernel",
        "runtime-lib/src/simd",
        "runtime-lib/src/threads",
        // Statics that JavaScript reaches by their addresses.
        "examples/wasm/src/lib.rs",
    ];
    for folder in ["compiler/src", "runtime-lib/src", "macros/src", "examples"] {
        for path in sources(&root().join(folder)) {
            let inside = path.strip_prefix(root()).expect("it lies in the root");
            let allowed = corners.iter().any(|corner| inside.starts_with(corner));
            let words = ["unsafe {", "unsafe fn", "unsafe impl"];
            let found = words.iter().any(|word| text(&path).contains(word));
            assert!(allowed || !found, "{} has `unsafe`", inside.display());
        }
    }
}

#[test]
fn every_family_of_operators_is_listed_once_and_in_order() {
    let list = text(&root().join("compiler/src/ops/mod.rs"));
    let (_, list) = list.split_once("const FAMILIES").expect("the list has that name");
    let (list, _) = list.split_once("];").expect("the list ends");
    let listed: Vec<&str> =
        list.lines().filter_map(|line| line.trim().strip_suffix("::OPS,")).collect();
    assert!(listed.is_sorted(), "{listed:?}");
    let folder = root().join("compiler/src/ops");
    for path in sources(&folder) {
        if !text(&path).contains("\npub const OPS: ")
            && !text(&path).contains("\npub(crate) const OPS: ")
        {
            continue;
        }
        let inside = path.strip_prefix(&folder).expect("it lies in the folder").with_extension("");
        let words: Vec<_> = inside.iter().map(|word| word.to_string_lossy()).collect();
        let family = words.join("::").trim_end_matches("::mod").to_owned();
        let times = listed.iter().filter(|name| **name == family).count();
        assert_eq!(times, 1, "{family} is listed {times} times");
    }
}

#[test]
fn every_crate_has_the_licenses_of_the_repository() {
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let expected = text(&root().join(license));
        for folder in ["proto", "runtime-lib", "compiler", "macros"] {
            let path = root().join(folder).join(license);
            assert!(text(&path) == expected, "{} differs from {license}", path.display());
        }
    }
}

/// Modules of `kernels/` that no module of `ops/` calls, and why.
const NO_OPERATORS: &[(&str, &str)] = &[("accuracy", "tests over the kernels of many families")];

/// The names of the modules in a folder.
fn modules(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder is checked in").flatten();
    let names = entries.filter_map(|entry| {
        Some(entry.path().with_extension("").file_name()?.to_string_lossy().into_owned())
    });
    names.filter(|name| name != "mod").collect()
}

/// Whether a family of operators has kernels under its own name: `kernel!(FLOATS T, family::…)`.
fn has_kernels(ops: &Path, family: &str) -> bool {
    let own = format!(" {family}::");
    let files = sources(ops).into_iter().filter(|path| {
        let inside = path.strip_prefix(ops).expect("it lies in the folder").with_extension("");
        inside.starts_with(family)
    });
    let texts: Vec<String> = files.map(|path| text(&path)).collect();
    let mut calls = texts.iter().flat_map(|text| text.split("kernel!(").skip(1));
    calls.any(|call| call.split('|').next().is_some_and(|path| path.contains(&own)))
}

#[test]
fn kernels_have_a_module_for_each_family_of_operators() {
    let ops = root().join("compiler/src/ops");
    let mut expected = modules(&ops);
    expected.retain(|family| has_kernels(&ops, family));
    expected.extend(NO_OPERATORS.iter().map(|(name, _)| (*name).to_owned()));
    assert_eq!(modules(&root().join("runtime-lib/src/kernels")), expected);
}

#[test]
fn every_workspace_has_the_same_minimum_rust_version() {
    let minimum = |folder: &str| {
        let manifest = text(&root().join(folder).join("Cargo.toml"));
        let line = manifest.lines().find(|line| line.starts_with("rust-version = "));
        line.expect("the manifest states it").to_owned()
    };
    for folder in ["examples/firmware", "examples/wasm", "tests/peers", "tests/targets"] {
        assert_eq!(minimum(folder), minimum(""), "in {folder}");
    }
}
