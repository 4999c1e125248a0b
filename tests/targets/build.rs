//! Writes the memory map of the board for the linker.

use std::{env, fs, io, path::PathBuf};

/// Returns the flash and the RAM of one of QEMU's boards.
fn memory(board: &str) -> Option<&'static str> {
    Some(match board {
        "microbit" => {
            "FLASH : ORIGIN = 0x00000000, LENGTH = 256K RAM : ORIGIN = 0x20000000, LENGTH = 16K"
        }
        "mps2-an505" => {
            "FLASH : ORIGIN = 0x10000000, LENGTH = 4M RAM : ORIGIN = 0x38000000, LENGTH = 4M"
        }
        "mps3-an547" => {
            // The weights of large models are in another memory than the code.
            "FLASH : ORIGIN = 0x00000000, LENGTH = 512K RAM : ORIGIN = 0x20000000, LENGTH = 512K \
             LARGE : ORIGIN = 0x61000000, LENGTH = 16M"
        }
        "mps2-an385" | "mps2-an386" | "mps2-an500" => {
            "FLASH : ORIGIN = 0x00000000, LENGTH = 4M RAM : ORIGIN = 0x20000000, LENGTH = 4M"
        }
        _ => return None,
    })
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=virt.x");
    println!("cargo::rerun-if-env-changed=BOARD");
    let variable = |name| env::var(name).unwrap_or_default();
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    if let Some(memory) = memory(&variable("BOARD")) {
        let mut script = format!("MEMORY {{ {memory} }}\n");
        if memory.contains("LARGE") {
            script += "SECTIONS { .weights : { *(.rodata*WEIGHTS*) } > LARGE } \
                INSERT BEFORE .text;\n";
        }
        fs::write(out_dir.join("memory.x"), script)?;
        // No interrupt is enabled; `src/vectors.rs` has an empty table.
        fs::write(out_dir.join("device.x"), "")?;
        println!("cargo::rustc-link-arg-bins=-Tlink.x");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    }
    if variable("CARGO_CFG_TARGET_ARCH") == "riscv32" {
        fs::copy("virt.x", out_dir.join("virt.x"))?;
        println!("cargo::rustc-link-arg-bins=-Tvirt.x");
    }
    println!("cargo::rustc-link-search={}", out_dir.display());
    Ok(())
}
