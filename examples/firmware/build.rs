//! Writes the memory map of the board for the linker.

use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::copy("memory.x", out_dir.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out_dir.display());
    println!("cargo::rerun-if-changed=memory.x");
    Ok(())
}
