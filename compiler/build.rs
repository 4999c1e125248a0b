//! Lists the sources of the crates that programs with a model need, so that the `onnxc` program
//! carries them. A package from a registry has no such files beside it, but its dependencies are in
//! the registry too.

use std::{
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The folders of the crates in the workspace, with the names of the crates.
const CRATES: [(&str, &str); 4] = [
    ("compiler", "onnxc"),
    ("proto", "onnxc-proto"),
    ("runtime-lib", "onnxc-runtime"),
    ("runtime-lib/macros", "onnxc-runtime-macros"),
];

/// The files of a crate, and the folder of its source.
const PARTS: [&str; 6] =
    ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "build.rs", "src"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CLI").is_none() {
        return Ok(());
    }
    let variable = |name| env::var_os(name).map(PathBuf::from).expect("cargo sets this variable");
    let workspace = variable("CARGO_MANIFEST_DIR").join("..");
    let out = variable("OUT_DIR");
    let mut list = String::from("&[\n");
    if CRATES.iter().all(|(folder, name)| is_crate(&workspace.join(folder), name)) {
        let manifest = out.join("Cargo.toml");
        fs::write(&manifest, root_manifest(&tracked(workspace.join("Cargo.toml"))?))?;
        entry(&mut list, "Cargo.toml", &manifest);
        for (folder, _) in CRATES {
            let present = PARTS.iter().filter(|part| workspace.join(folder).join(part).exists());
            for part in present {
                let (path, name) = (workspace.join(folder).join(part), format!("{folder}/{part}"));
                println!("cargo::rerun-if-changed={}", path.display());
                add(&mut list, &path, &name)?;
            }
        }
    }
    list.push_str("]\n");
    fs::write(out.join("sources.rs"), list)
}

/// Returns whether a folder has the crate called `name`.
fn is_crate(folder: &Path, name: &str) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    manifest.contains(&format!("name = \"{name}\""))
}

/// Reads a file, whose changes run this program again.
fn tracked(path: PathBuf) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path)
}

/// Returns the manifest of a workspace that has only these crates: the sections of the workspace's
/// manifest from which they inherit.
fn root_manifest(workspace: &str) -> String {
    let members = CRATES.map(|(folder, _)| folder);
    let mut manifest = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n");
    let mut is_inherited = false;
    for line in workspace.lines() {
        if line.starts_with('[') {
            is_inherited = line.starts_with("[workspace.");
        }
        if is_inherited {
            manifest.push_str(line);
            manifest.push('\n');
        }
    }
    manifest
}

/// Adds the file at `path`, or the files in the folder, in the order of their names.
fn add(list: &mut String, path: &Path, name: &str) -> io::Result<()> {
    if !path.is_dir() {
        entry(list, name, path);
        return Ok(());
    }
    let mut inside: Vec<PathBuf> =
        fs::read_dir(path)?.map(|found| Ok(found?.path())).collect::<io::Result<_>>()?;
    inside.sort();
    for path in inside {
        let file = path.file_name().expect("an entry of a folder has a name").to_string_lossy();
        // Nobody runs the unit tests of a dependency.
        if !matches!(&*file, "tests" | "tests.rs") {
            add(list, &path, &format!("{name}/{file}"))?;
        }
    }
    Ok(())
}

/// Adds a line with the name of a file and its contents.
fn entry(list: &mut String, name: &str, path: &Path) {
    let path = path.display().to_string();
    writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes any text");
}
