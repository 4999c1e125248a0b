//! A compiled model and the files that it is written to.

use crate::{
    Module,
    diag::{self, Diagnostic},
    emit,
    file::{self, Replacement},
    plan::Plans,
};
use std::{
    io::Write,
    iter,
    path::{Path, PathBuf},
};

/// A compiled model: its plans and its module.
pub struct CompiledModel {
    /// The plans, for sizes, costs and the interpreter.
    pub plans: Plans,
    /// The generated module.
    pub module: Module,
    /// The name of the weights file, unless the weights are in the module.
    pub weights_file: Option<String>,
    /// The external data files that were read, relative to the model's directory.
    pub files: Vec<PathBuf>,
    /// The warnings about the model: parts that are not compiled as written.
    pub warnings: Vec<Diagnostic>,
    /// The path of the model file, unless the model was given as bytes.
    pub model: Option<PathBuf>,
}

impl CompiledModel {
    /// Writes the module to `path` and the weights file, if there is one, beside it. Returns the
    /// path of the weights file. A file is written only if its content changes, and either both
    /// files are written or neither.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written, if `path` has no directory for the weights, or
    /// if a file that the model was read from would be overwritten.
    pub fn write(&self, path: &Path) -> Result<Option<PathBuf>, Diagnostic> {
        let (weights, files) = self.stage_files(path)?;
        // All files are complete by now, so only a crash between two renames can separate them.
        files.into_iter().try_for_each(Replacement::put)?;
        Ok(weights)
    }

    /// Returns the path of the weights file, if there is one, and the files that [`Self::write`]
    /// moves into place.
    pub(crate) fn stage_files(
        &self,
        path: &Path,
    ) -> Result<(Option<PathBuf>, Vec<Replacement>), Diagnostic> {
        file::check_folder(path)?;
        let weights =
            self.weights_file.as_ref().map(|name| file::beside(path, name)).transpose()?;
        self.keep_sources(path)?;
        weights.iter().try_for_each(|to| self.keep_sources(to))?;
        let write = |out: &mut dyn Write| emit::write_weights(&self.plans.all(), out);
        // The module comes first, so that an error names the path that the user gave.
        let module = Replacement::of(path, |out| out.write_all(self.module.code.as_bytes()))?;
        let staged = weights.as_deref().map(|to| Replacement::of(to, write)).transpose()?;
        Ok((weights, staged.into_iter().chain([module]).collect()))
    }

    /// Returns an error if `to` is a file that the model was read from.
    fn keep_sources(&self, to: &Path) -> diag::Result {
        let Some(model) = &self.model else { return Ok(()) };
        let files = self.files.iter().map(|file| model.with_file_name(file));
        file::keep_sources(to, iter::once(model.clone()).chain(files))
    }
}
