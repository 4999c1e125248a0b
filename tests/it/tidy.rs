//! Rules of the code that no compiler checks.

use crate::programs::root;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The layers of the compiler from the top down, each with the modules that it may use. Every
/// module may use the base and itself.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "builder",
            "check",
            "compiled_model",
            "emit",
            "export",
            "import",
            "interpreter",
            "ir",
            "ops",
            "options",
            "passes",
            "pipeline",
            "plan",
            "train",
        ],
    ),
    (
        "builder",
        &["compiled_model", "emit", "import", "ir", "options", "passes", "pipeline", "plan"],
    ),
    (
        "pipeline",
        &[
            "check",
            "compiled_model",
            "emit",
            "export",
            "import",
            "ir",
            "options",
            "passes",
            "plan",
            "train",
        ],
    ),
    ("compiled_model", &["emit", "plan"]),
    ("options", &["emit", "import", "passes", "plan"]),
    ("train", &["check", "import", "ir", "ops", "passes"]),
    ("export", &["check", "import", "ir", "ops"]),
    ("import", &["check", "ir", "ops", "plan"]),
    ("check", &[]),
    ("passes", &["interpreter", "ir", "ops", "plan"]),
    ("emit", &["plan"]),
    ("interpreter", &["plan"]),
    ("ops", &["ir", "plan"]),
    ("ir", &["plan"]),
    ("plan", &[]),
];

/// The modules that every module may use. They use each other only.
const BASE: &[&str] = &[
    "arena",
    "array",
    "byte_count",
    "choice",
    "diag",
    "dim",
    "domain",
    "dtype",
    "file",
    "ident",
    "limits",
    "mapping",
    "tensor",
    "ty",
    "value",
];

/// The Rust files in a folder, apart from build output.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
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

/// The text of a file.
pub fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("sources are UTF-8")
}

/// The part of a file before its tests.
pub fn without_tests(text: &str) -> &str {
    let tests = text.find("mod tests {").and_then(|at| text[..at].rfind("#[cfg("));
    tests.map_or(text, |at| &text[..at])
}

/// The paths that lead from a file of the library, at `inside`, to the root of the library. The
/// binary's files call the library by its name.
fn roots(inside: &Path, layer: &str) -> [String; 2] {
    let module = inside.with_extension("");
    let depth = module.iter().filter(|name| *name != "mod").count();
    let library = if layer == "cli" { "onnxc::" } else { "crate::" };
    [library.to_owned(), "super::".repeat(depth)]
}

/// The first names after `root` in code, those of a list in braces included.
fn modules_used<'c>(code: &'c str, root: &str) -> Vec<&'c str> {
    let word = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let mut modules = Vec::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            modules.push(&rest[..word(rest).unwrap_or(rest.len())]);
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
                    modules.push(&list[i..i + word(&list[i..]).unwrap_or(0)]);
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

/// The module that declares a name that `lib.rs` re-exports; other names are their own.
fn declaring_module(name: &str) -> &str {
    match name {
        "ArenaIn" | "Module" => "emit",
        "Builder" | "Report" => "builder",
        "CheckReport" | "Compiler" | "ModuleItems" => "pipeline",
        "CompiledModel" => "compiled_model",
        "Defaults" | "Spec" => "import",
        "Optimize" | "Precision" => "plan",
        "Options" | "Weights" => "options",
        "write_if_changed" => "file",
        other => other,
    }
}

#[test]
fn modules_use_only_lower_layers() {
    let folder = root().join("compiler/src");
    let mut wrong = Vec::new();
    for path in sources(&folder) {
        let inside = path.strip_prefix(&folder).expect("the path is below the folder");
        let layer = inside
            .iter()
            .next()
            .expect("a source below the folder has a first component")
            .to_string_lossy();
        let layer = layer.trim_end_matches(".rs");
        let below = match LAYERS.iter().find(|(name, _)| *name == layer) {
            Some((_, below)) => *below,
            None if BASE.contains(&layer) => &[],
            None => {
                // `lib.rs` and `main.rs` declare the modules.
                assert!(["lib", "main"].contains(&layer), "{layer} is in no layer");
                continue;
            }
        };
        if inside.ends_with("tests.rs") {
            continue;
        }
        let text = text(&path);
        let code = without_tests(&text);
        let roots = roots(inside, layer);
        for used in roots.iter().flat_map(|root| modules_used(code, root)) {
            let used = declaring_module(used);
            let is_layer = LAYERS.iter().any(|(name, _)| *name == used);
            if is_layer && used != layer && !below.contains(&used) {
                wrong.push(format!("{} uses {used}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_found() {
    let used = |inside: &str, layer: &str, code: &'static str| {
        let roots = roots(Path::new(inside), layer);
        roots.iter().flat_map(|root| modules_used(code, root)).collect::<Vec<_>>()
    };
    let code = "use onnxc::{Options, plan::Plan};";
    assert_eq!(used("cli/run.rs", "cli", code), ["Options", "plan"]);
    assert_eq!(used("ir/mod.rs", "ir", "crate::dim::Dim; super::ops::find"), ["dim", "ops"]);
    let code = "super::super::passes::fold; super::super::super::emit::write";
    assert_eq!(used("ops/pool/mod.rs", "ops", code)[0], "passes");
    assert_eq!(used("ops/pool/wide.rs", "ops", code), ["emit"]);
}

/// The fuzz targets, which are not built with the workspace, include some files of the program.
#[test]
fn files_that_fuzz_targets_include_use_no_others() {
    let read = |path: &Path| fs::read_to_string(path).expect("the file can be read");
    let folder = root().join("fuzz/src");
    let targets = read(&folder.join("lib.rs"));
    let included = targets.split("#[path = \"").skip(1).filter_map(|text| text.split('"').next());
    let included: Vec<PathBuf> = included.map(|path| folder.join(path)).collect();
    assert!(!included.is_empty());
    let names: Vec<_> = included.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    let is_module = |word: &str| word.starts_with(char::is_lowercase);
    for path in &included {
        let text = read(path);
        let uses = text.lines().filter_map(|line| line.strip_prefix("use super::"));
        let words = uses.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let others: Vec<&str> =
            words.filter(|word| is_module(word) && !names.contains(word)).collect();
        assert_eq!(others, [""; 0], "{}", path.display());
    }
}

#[test]
fn files_have_at_most_550_lines() {
    let macros = ["macros/src", "runtime-lib/macros/src"];
    for folder in ["compiler/src", "runtime-lib/src", "tests/it"].into_iter().chain(macros) {
        for path in sources(&root().join(folder)) {
            let lines = text(&path).lines().count();
            assert!(lines <= 550, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn unsafe_is_confined_to_listed_files() {
    let corners = [
        "compiler/src/mapping.rs",
        "runtime-lib/src/arena",
        "runtime-lib/src/microkernel",
        "runtime-lib/src/simd",
        "runtime-lib/src/threads",
        // A mapped file, which nobody changes.
        "examples/server/src/models.rs",
        // Statics that JavaScript reaches by their addresses.
        "examples/wasm/src/lib.rs",
    ];
    for folder in ["compiler/src", "runtime-lib/src", "macros/src", "examples"] {
        for path in sources(&root().join(folder)) {
            let inside = path.strip_prefix(root()).expect("the path is below the root");
            let allowed = corners.iter().any(|corner| inside.starts_with(corner));
            let words = ["unsafe {", "unsafe extern", "unsafe fn", "unsafe impl"];
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
        let inside =
            path.strip_prefix(&folder).expect("the path is below the folder").with_extension("");
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
        for folder in ["proto", "runtime-lib", "runtime-lib/macros", "compiler", "macros"] {
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

/// Returns whether a family of operators has kernels under its own name: `kernel!(FLOATS T,
/// family::…)`.
fn has_kernels(ops: &Path, family: &str) -> bool {
    let own = format!(" {family}::");
    let files = sources(ops).into_iter().filter(|path| {
        let inside =
            path.strip_prefix(ops).expect("the path is below the folder").with_extension("");
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

/// The compiler says in a module which features its kernels need.
#[test]
fn the_compiler_knows_the_features_of_kernels() {
    let modules = text(&root().join("runtime-lib/src/kernels/mod.rs"));
    let compiler = text(&root().join("compiler/src/emit/imports.rs"));
    let lines: Vec<&str> = modules.lines().collect();
    let mut found = 0;
    for pair in lines.windows(2) {
        let feature = pair[0].strip_prefix("#[cfg(feature = ");
        let feature = feature.and_then(|rest| rest.strip_suffix(")]"));
        let module = pair[1].strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';'));
        let (Some(feature), Some(module)) = (feature, module) else { continue };
        // A module reports these in other ways.
        if ["\"alloc\"", "\"image\""].contains(&feature) {
            continue;
        }
        let arm = compiler.lines().find(|line| line.contains(&format!("\"{module}\"")));
        let arm = arm.unwrap_or_else(|| panic!("`feature` has no arm for {module}"));
        assert!(arm.trim_end().ends_with(&format!("=> {feature},")), "{module}: {arm}");
        found += 1;
    }
    assert!(found > 6, "only {found} modules are features");
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
