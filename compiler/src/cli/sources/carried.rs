//! The sources that the program carries, and their copy in the user's cache.

use onnxc::{
    diag::{Code, Diagnostic, Result, quoted},
    file, write_if_changed,
};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// The files of a workspace, by their path in it. Empty in a program that was built from a package
/// of the registry.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Writes the sources to the user's cache, unless they are there. Returns the folder of the
/// workspace, or `None` if the program carries no sources.
///
/// # Errors
///
/// Returns an error if there is no cache, or if it cannot be written.
pub fn cached() -> Result<Option<PathBuf>> {
    if FILES.is_empty() {
        return Ok(None);
    }
    let cache = cache(cfg!(windows), cfg!(target_os = "macos"), |name| env::var_os(name));
    let cache = cache.ok_or_else(no_cache)?;
    write(&cache.join("onnxc")).map(Some)
}

/// Writes the sources to a folder in `cache` that is named after its contents. Files that are there
/// stay, so that several processes can write at once, and cargo does not compile them again.
fn write(cache: &Path) -> Result<PathBuf> {
    let copy = cache.join(format!("sources-{}", &digest()[..16]));
    for (name, bytes) in FILES {
        let path = copy.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(file::refused(folder)).map_err(suggest_path)?;
        }
        write_if_changed(&path, bytes).map_err(suggest_path)?;
    }
    Ok(copy)
}

/// Returns the SHA-256 of all names and contents, in hexadecimal.
fn digest() -> String {
    let lines = FILES.iter().map(|(name, bytes)| format!("{} {name}\n", file::sha256(bytes)));
    file::sha256(lines.collect::<String>().as_bytes())
}

/// Returns the folder for the caches of programs, by the conventions of the system. `variable`
/// returns the value of an environment variable.
fn cache(
    is_windows: bool,
    is_mac: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    // Relative paths are invalid by the XDG Base Directory Specification.
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if is_windows {
        return folder("LOCALAPPDATA");
    }
    let beside_home = if is_mac { "Library/Caches" } else { ".cache" };
    folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(beside_home)))
}

fn no_cache() -> Diagnostic {
    let variable = if cfg!(windows) { "LOCALAPPDATA" } else { "HOME" };
    let message = format!(
        "the sources of the runtime library need a folder for caches, but {} is not set",
        quoted(variable)
    );
    suggest_path(Diagnostic::new(Code::Io, message))
}

fn suggest_path(error: Diagnostic) -> Diagnostic {
    error.help("set `--runtime PATH` to the folder `runtime-lib` in the sources of onnxc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process::Command, time::SystemTime};

    /// Returns the path of a temporary folder, which does not exist.
    fn scratch(name: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("onnxc-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        path
    }

    fn modified(path: &Path) -> SystemTime {
        let found = fs::metadata(path).and_then(|found| found.modified());
        found.expect("the file was written")
    }

    #[test]
    fn the_copy_is_a_workspace_and_is_written_once() {
        let cache = scratch("copy");
        let copy = write(&cache).expect("the temporary directory is writable");
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let same = |path| {
            let [copied, source] = [&copy, &workspace].map(|root| fs::read(root.join(path)).ok());
            copied.is_some() && copied == source
        };
        let kernels = "runtime-lib/src/kernels/mod.rs";
        for path in [kernels, "runtime-lib/Cargo.toml", "compiler/build.rs", "proto/LICENSE-MIT"] {
            assert!(same(path), "{path}");
        }
        let before = modified(&copy.join(kernels));
        fs::write(copy.join("proto/src/lib.rs"), "").expect("the copy is writable");
        assert_eq!(write(&cache).ok().as_ref(), Some(&copy));
        assert_eq!(modified(&copy.join(kernels)), before);
        assert!(same("proto/src/lib.rs"), "a damaged file is mended");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
        let found = cargo.current_dir(&copy).output().expect("cargo runs this test");
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        for name in ["onnxc", "onnxc-proto", "onnxc-runtime", "onnxc-runtime-macros"] {
            assert!(text.contains(&format!("\"name\":\"{name}\"")), "{text}");
        }
        drop(fs::remove_dir_all(cache));
    }

    #[test]
    fn the_cache_is_where_the_system_has_it() {
        let root = if cfg!(windows) { "C:\\" } else { "/" };
        let all = |name: &str| Some(format!("{root}{name}").into());
        let home = |name: &str| all(name).filter(|_| name == "HOME");
        let path = |name: &str| Some(PathBuf::from(format!("{root}{name}")));
        assert_eq!(cache(false, false, all), path("XDG_CACHE_HOME"));
        assert_eq!(cache(false, false, home), path("HOME/.cache"));
        assert_eq!(cache(false, true, home), path("HOME/Library/Caches"));
        assert_eq!(cache(true, false, all), path("LOCALAPPDATA"));
        assert_eq!(cache(true, false, home), None);
        assert_eq!(cache(false, false, |_| Some("relative".into())), None);
    }
}
