//! Says which instructions the kernels may use, and whether weights files are linked: conditions
//! that `cfg` cannot state, or that many places share.

use std::env;

/// The processors of the ARMv8-M main profile that have instructions for signals, and those of them
/// that have vectors. `cfg` knows of no instructions of a Cortex-M on stable Rust.
const SIGNALS: [&str; 6] =
    ["cortex-m33", "cortex-m35p", "cortex-m52", "cortex-m55", "cortex-m85", "star-mc1"];
const VECTORS: [&str; 3] = ["cortex-m52", "cortex-m55", "cortex-m85"];

/// The architectures for which stable Rust has an assembler.
const ASSEMBLED: [&str; 6] = ["aarch64", "arm", "riscv32", "riscv64", "x86", "x86_64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let said = [cortex_m().as_slice(), &x86(), &[("linked_weights", links_weights())]].concat();
    for (name, says) in said {
        println!("cargo::rustc-check-cfg=cfg({name})");
        if says {
            println!("cargo::rustc-cfg={name}");
        }
    }
}

/// Returns a variable that cargo sets, or "".
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Returns whether cargo sets a variable.
fn is_set(name: &str) -> bool {
    env::var_os(name).is_some()
}

/// The instructions that a Cortex-M has.
fn cortex_m() -> [(&'static str, bool); 3] {
    let (target, flags) = (variable("TARGET"), variable("CARGO_ENCODED_RUSTFLAGS"));
    let v7em = target.starts_with("thumbv7em-");
    let v8m = target.starts_with("thumbv8m.main-");
    let flag =
        |flag: &'_ str| flag.trim_start_matches("-C").strip_prefix("target-cpu=").map(String::from);
    let processor = flags.split('\x1f').filter_map(flag).next_back().unwrap_or_default();
    let has = |processors: &[&str]| processors.contains(&processor.as_str());
    let float = target.ends_with("hf") && (v7em || v8m);
    [
        ("arm_float", float),
        ("arm_signals", v7em || v8m && has(&SIGNALS)),
        ("arm_vectors", float && v8m && has(&VECTORS)),
    ]
}

/// The levels of x86-64 that are compiled. A kernel of an operating system may have no vectors.
fn x86() -> [(&'static str, bool); 3] {
    let is_x86 = variable("CARGO_CFG_TARGET_ARCH") == "x86_64";
    let has_sse2 = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|name| name == "sse2");
    [
        ("x86_sse2", is_x86 && has_sse2),
        ("x86_avx2", is_x86 && is_set("CARGO_FEATURE_AVX2")),
        ("x86_avx512", is_x86 && is_set("CARGO_FEATURE_AVX512")),
    ]
}

/// Whether the assembler reads weights files. On 32-bit Windows symbols have other names.
fn links_weights() -> bool {
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let is_narrow_windows = is_set("CARGO_CFG_WINDOWS") && arch == "x86";
    is_set("CARGO_FEATURE_LINK_WEIGHTS") && !is_narrow_windows && ASSEMBLED.contains(&arch.as_str())
}
