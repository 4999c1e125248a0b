//! Finds the sources of onnxc for a project that the program writes.

mod carried;

use onnxc::diag::Result;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The sources that fit this program.
pub enum Sources {
    /// A workspace.
    Workspace(PathBuf),
    /// The packages of this version in the registry.
    Version(&'static str),
}

/// A crate that a project depends on.
#[derive(Clone, Copy)]
pub enum Crate {
    Compiler,
    Proto,
    Runtime,
}

impl Crate {
    /// The folder of the crate in the workspace.
    pub fn folder(self) -> &'static str {
        match self {
            Crate::Compiler => "compiler",
            Crate::Proto => "proto",
            Crate::Runtime => "runtime-lib",
        }
    }
}

impl Sources {
    /// Returns the workspace around this program, or else the copy in the cache of the sources that
    /// this program carries, or else its version in the registry.
    ///
    /// # Errors
    ///
    /// Returns an error if the cache cannot be written.
    pub fn find() -> Result<Sources> {
        let around = env::current_exe().ok().and_then(|program| workspace_around(&program));
        let workspace = around.map_or_else(carried::cached, |workspace| Ok(Some(workspace)))?;
        Ok(workspace.map_or(Sources::Version(env!("CARGO_PKG_VERSION")), Sources::Workspace))
    }

    /// Returns the dependency on a crate in a manifest, without features.
    pub fn dependency(&self, of: Crate) -> String {
        match self {
            Sources::Workspace(root) => dependency_on(&root.join(of.folder())),
            Sources::Version(version) => format!("version = \"={version}\""),
        }
    }
}

/// Returns the dependency on the crate in a folder.
pub fn dependency_on(folder: &Path) -> String {
    format!("path = {:?}", folder.display().to_string())
}

/// Returns the workspace of onnxc in a folder around `path`.
fn workspace_around(path: &Path) -> Option<PathBuf> {
    let is_workspace = |folder: &&Path| {
        let manifest = folder.join(Crate::Runtime.folder()).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap_or_default();
        manifest.contains("name = \"onnxc-runtime\"")
    };
    path.ancestors().find(is_workspace).map(Path::to_owned)
}
