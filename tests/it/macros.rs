//! `include_onnx!`: uses that compile, and the messages of those that do not.

use crate::{golden, programs};
use std::path::Path;

#[test]
fn macro_uses_compile_without_warnings_in_each_edition() {
    for file in golden::files(&programs::folder("ui/good"), ".rs") {
        for edition in ["2021", "2024"] {
            let output = programs::rustc(&file, edition, "lib");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.is_empty(), "{}\n{text}", file.display());
        }
    }
}

#[test]
fn macro_errors_point_at_the_argument() {
    for file in golden::files(&programs::folder("ui/bad"), ".rs") {
        let output = programs::rustc(relative(&file), "2024", "lib");
        assert_eq!(output.status.code(), Some(1), "{}", file.display());
        let text = String::from_utf8(output.stderr).expect("rustc writes UTF-8");
        let (diagnostics, _) = text.split_once("error: aborting").unwrap_or((&text, ""));
        golden::check(
            &file.with_extension("stderr"),
            format!("{}\n", diagnostics.trim_end()).as_bytes(),
        );
    }
}

#[test]
fn a_wrong_size_does_not_compile() {
    let output = programs::rustc(&programs::folder("ui/wrong_size.rs"), "2024", "lib");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("E0308") && text.contains("an array with a size of 3"), "{text}");
}

#[test]
fn a_warning_points_at_the_model() {
    let output = programs::rustc(&programs::folder("ui/unsorted.rs"), "2024", "lib");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for part in ["warning: ", "nothing before this node defines `t`", "ui/unsorted.rs:3"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn the_model_and_its_external_data_are_sources_of_the_program() {
    let file = programs::folder("ui/good/external.rs");
    assert!(programs::rustc(&file, "2024", "lib").status.success());
    let depends = Path::new(env!("CARGO_TARGET_TMPDIR")).join("external.d");
    let depends = std::fs::read_to_string(depends).expect("rustc wrote the file");
    assert!(depends.contains("models/external.onnxtxt"), "{depends}");
    assert!(depends.contains("models/external.data"), "{depends}");
}

/// Returns the path relative to this package, which makes messages the same on every machine.
fn relative(file: &Path) -> &Path {
    file.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("the file is in this package")
}
