//! The program of each target: runs the models, and prints their outputs and their cost.
#![cfg_attr(any(target_os = "none", target_family = "wasm"), no_std, no_main)]

#[cfg_attr(all(target_arch = "arm", target_os = "none"), path = "cortex_m.rs")]
#[cfg_attr(all(target_arch = "riscv32", target_os = "none"), path = "riscv.rs")]
#[cfg_attr(target_family = "wasm", path = "wasm.rs")]
#[cfg_attr(not(any(target_os = "none", target_family = "wasm")), path = "hosted.rs")]
mod board;
#[cfg(target_os = "none")]
mod stack;
#[cfg(all(target_arch = "arm", target_os = "none"))]
mod vectors;

#[cfg(not(any(target_os = "none", target_family = "wasm")))]
fn main() -> std::process::ExitCode {
    board::main()
}
