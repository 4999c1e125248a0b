//! Modules that show a run to an observer: `--taps` and `--profile`.

use crate::{
    golden,
    programs::{folder, onnxc, run, rustc_without_features, scratch},
};
use std::{fs, path::Path};

/// Compiles a model to a module of that name in `directory`. Returns the module.
fn compile(directory: &Path, name: &str, model: &str, options: &[&str]) -> String {
    let model = folder("models").join(format!("{model}.onnxtxt"));
    let module = directory.join(format!("{name}.rs"));
    let run = onnxc().arg(model).arg("-o").arg(&module).args(options).output();
    let run = run.expect("the program was built");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    fs::read_to_string(module).expect("the program wrote the file")
}

#[test]
fn observers_see_the_values_and_times_of_nodes() {
    const BOTH: [&str; 2] = ["--taps", "--profile"];
    let directory = scratch("observe");
    compile(&directory, "plain", "mlp", &["--name=plain"]);
    let code = compile(&directory, "tiny", "mlp", &[&BOTH[..], &["--name=tiny"]].concat());
    golden::check(&folder("golden/observed.rs"), code.as_bytes());
    for (name, model, options) in [
        ("network", "network", &[][..]),
        ("sequences", "sequences", &[]),
        ("defaults", "defaults", &[]),
        ("custom_free", "free", &["--arena=heap"]),
        ("cache", "cache", &["--dim=past=1..=7", "--dim=new=1", "--arena=caller"]),
    ] {
        compile(&directory, name, model, &[&BOTH[..], options].concat());
    }
    let file = directory.join("main.rs");
    fs::copy(folder("programs/observe.rs"), &file).expect("the scratch directory is writable");
    run(&file);
}

#[test]
fn each_option_adds_its_own_lines_only() {
    let directory = scratch("observe_apart");
    let plain = compile(&directory, "mlp", "mlp", &[]);
    assert!(!plain.contains("observe"), "{plain}");
    let taps = compile(&directory, "mlp", "mlp", &["--taps"]);
    assert!(taps.contains("fn infer_with") && !taps.contains("infer_profiled"), "{taps}");
    assert!(taps.contains("observer.value(") && !taps.contains("observer.node("), "{taps}");
    let profile = compile(&directory, "mlp", "mlp", &["--profile"]);
    assert!(profile.contains("fn infer_profiled") && !profile.contains("infer_with"), "{profile}");
    assert!(!profile.contains("observer.value(") && profile.contains("observer.node("));
}

/// A program that observes a run without `std` and the heap.
const WITHOUT_STD: &str = "\
#![no_std]
#![deny(warnings)]
mod tiny;
use onnxc_runtime::observe::{Profile, Times};
use tiny::Tiny;
pub fn run(model: &mut Tiny, ticks: impl FnMut() -> u64) -> u64 {
    let mut first = 0.0;
    model.infer_with(&[0.0; 3], |_, value| {
        first = value.data::<f32>().map_or(0.0, |data| data[0]);
    });
    let times = [Times::NONE; Tiny::NODES.len()];
    let mut profile = Profile::new(Tiny::NODES, times, ticks);
    model.infer_profiled(&[first, 0.0, 0.0], &mut profile);
    profile.total()
}
";

#[test]
fn an_observed_run_needs_neither_std_nor_the_heap() {
    let directory = scratch("observe_no_std");
    compile(&directory, "tiny", "mlp", &["--name=tiny", "--taps", "--profile"]);
    let file = directory.join("lib.rs");
    fs::write(&file, WITHOUT_STD).expect("the scratch directory is writable");
    let output = rustc_without_features(&file, &directory);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
