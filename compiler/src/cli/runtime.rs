//! Finds the runtime library for a project that the program writes.

use super::sources::{self, Crate, Sources};
use onnxc::diag::{Code, Diagnostic, Result, quoted};
use std::path::{Path, PathBuf};

/// The source of the runtime library.
pub enum Runtime {
    /// A directory with its source.
    Path(PathBuf),
    /// A version from the registry.
    Version(String),
}

impl Runtime {
    /// Returns the runtime library that the user names, or else the one that fits this program.
    ///
    /// # Errors
    ///
    /// Returns an error if the user names no library, or if the cache cannot be written.
    pub fn find(wanted: Option<&str>) -> Result<Runtime> {
        if let Some(wanted) = wanted {
            return Runtime::parse(wanted);
        }
        Ok(match Sources::find()? {
            Sources::Workspace(root) => Runtime::Path(root.join(Crate::Runtime.folder())),
            Sources::Version(version) => Runtime::Version(format!("={version}")),
        })
    }

    /// Parses the value of `--runtime`.
    fn parse(wanted: &str) -> Result<Runtime> {
        match Path::new(wanted).canonicalize() {
            Ok(path) if path.join("Cargo.toml").is_file() => return Ok(Runtime::Path(path)),
            Err(_) if wanted.starts_with(|c: char| c.is_ascii_digit() || "=^~<>".contains(c)) => {
                return Ok(Runtime::Version(wanted.to_owned()));
            }
            _ => {}
        }
        let message = format!(
            "`--runtime` expects a folder with a `Cargo.toml`, or a version, found {}",
            quoted(wanted)
        );
        Err(Diagnostic::new(Code::BadOption, message)
            .help("name the folder `runtime-lib` in the sources of onnxc"))
    }

    /// Returns the diagnostic for a project that cargo did not build, with cargo's `text`.
    pub fn diagnose(&self, text: &str) -> Diagnostic {
        let diagnostic = match self {
            // Without the library, cargo compiles nothing.
            Runtime::Version(version) if !text.contains("could not compile") => {
                let message = format!(
                    "`onnxc-runtime` {} is neither beside this program nor in the registry",
                    version.trim_start_matches('=')
                );
                Diagnostic::new(Code::BadOption, message).help(
                    "set `--runtime PATH` to the folder `runtime-lib` in the sources of onnxc",
                )
            }
            _ => Diagnostic::new(Code::Internal, "the generated code does not build"),
        };
        diagnostic.note(text.trim_end())
    }

    /// Returns the line of a manifest for a program that runs on this machine: with the kernels
    /// that its processor can run, and with `features`.
    pub fn dependency(&self, features: &[&str]) -> String {
        let of = match self {
            Runtime::Path(path) => sources::dependency_on(path),
            Runtime::Version(version) => format!("version = {version:?}"),
        };
        let mut features =
            [&["all-kernels", "half", "link-weights", "std", level()], features].concat();
        features.sort_unstable();
        format!("onnxc-runtime = {{ {of}, default-features = false, features = {features:?} }}")
    }
}

/// The feature with the best SIMD level of this machine. The kernels of a level that it lacks would
/// only take time to compile.
fn level() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return "avx512";
    }
    "avx2"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_runtime_library_is_no_bug_of_the_compiler() {
        let version = Runtime::parse("=0.1.0").expect("this is a version");
        let missing = version.diagnose("error: no matching package named `onnxc-runtime` found");
        assert_eq!(missing.code, Code::BadOption);
        assert!(missing.message.starts_with("`onnxc-runtime` 0.1.0 is neither"), "{missing:?}");
        let broken = version.diagnose("error[E0308]: …\n\nerror: could not compile `bench`");
        assert_eq!(broken.code, Code::Internal);
    }

    #[test]
    fn programs_for_this_machine_have_the_kernels_that_it_can_run() {
        let version = Runtime::parse("=0.1.0").expect("this is a version");
        let line = version.dependency(&["threads"]);
        assert!(line.contains(&format!(r#""{}", "half""#, level())), "{line}");
        assert!(line.contains(r#""std", "threads"]"#), "{line}");
    }

    #[test]
    fn the_runtime_library_is_a_folder_or_a_version() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        for bad in ["no-such-folder", "../1.0", root, ""] {
            assert!(Runtime::parse(bad).is_err(), "{bad}");
        }
        for version in ["0.1.0", "=0.1", "^1", ">=1, <2"] {
            assert!(matches!(Runtime::parse(version), Ok(Runtime::Version(_))), "{version}");
        }
    }
}
