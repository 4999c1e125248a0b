//! Says which instructions a Cortex-M has: `cfg` knows of none on stable Rust.

use std::env;

/// The processors of the ARMv8-M main profile that have instructions for signals, and those of them
/// that have vectors.
const SIGNALS: [&str; 6] =
    ["cortex-m33", "cortex-m35p", "cortex-m52", "cortex-m55", "cortex-m85", "star-mc1"];
const VECTORS: [&str; 3] = ["cortex-m52", "cortex-m55", "cortex-m85"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(arm_float, arm_signals, arm_vectors)");
    let variable = |name| env::var(name).unwrap_or_default();
    let (target, flags) = (variable("TARGET"), variable("CARGO_ENCODED_RUSTFLAGS"));
    let v7em = target.starts_with("thumbv7em-");
    let v8m = target.starts_with("thumbv8m.main-");
    let flag =
        |flag: &'_ str| flag.trim_start_matches("-C").strip_prefix("target-cpu=").map(String::from);
    let processor = flags.split('\x1f').filter_map(flag).next_back().unwrap_or_default();
    let has = |processors: &[&str]| processors.contains(&processor.as_str());
    let float = target.ends_with("hf") && (v7em || v8m);
    let says = [
        ("arm_float", float),
        ("arm_signals", v7em || v8m && has(&SIGNALS)),
        ("arm_vectors", float && v8m && has(&VECTORS)),
    ];
    for (name, _) in says.into_iter().filter(|&(_, says)| says) {
        println!("cargo::rustc-cfg={name}");
    }
}
