//! The errors for files that cannot be read or written.

use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ident,
};
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// Returns a function that makes a diagnostic of an error in reading the file at `path`.
pub fn unreadable(path: &Path) -> impl Fn(io::Error) -> Diagnostic {
    move |error| {
        let diagnostic = unusable("read", path, &error);
        if path.is_dir() {
            return diagnostic.help(help_in(path));
        }
        match similar_file(path).filter(|_| error.kind() == ErrorKind::NotFound) {
            Some(near) => diagnostic.help(format!("did you mean {}?", quoted(&near))),
            None => diagnostic,
        }
    }
}

/// Returns the help for a folder where a file is expected.
fn help_in(folder: &Path) -> String {
    if folder.join("saved_model.pb").exists() {
        let folder = folder.display();
        return format!(
            "it is a SavedModel of TensorFlow: convert it with tf2onnx: \
             `python -m tf2onnx.convert --saved-model {folder} --output model.onnx`"
        );
    }
    let mut models: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    models.retain(|entry| entry.path().extension().is_some_and(|end| end == "onnx"));
    match &*models {
        [model] => format!("did you mean {}?", quoted(&model.path().display().to_string())),
        _ => "name a file in it".to_owned(),
    }
}

/// Returns a function that makes a diagnostic of an error in writing the file at `path`.
pub fn refused(path: &Path) -> impl Fn(io::Error) -> Diagnostic {
    move |error| unusable("written", path, &error)
}

/// Checks whether there is a folder for the file at `path`.
///
/// # Errors
///
/// Returns an error if the folder does not exist.
pub fn check_folder(path: &Path) -> Result {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            Err(refused(path)(ErrorKind::NotFound.into()))
        }
        _ => Ok(()),
    }
}

/// The error for a file that cannot be read or written.
fn unusable(verb: &str, path: &Path, error: &io::Error) -> Diagnostic {
    let shown = |path: &Path| quoted(&path.display().to_string());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing = folder.filter(|folder| !folder.exists());
    let reason = match (error.kind(), missing) {
        (ErrorKind::NotFound, Some(folder)) => format!("there is no folder {}", shown(folder)),
        (ErrorKind::NotFound, None) => "there is no file of this name".to_owned(),
        (ErrorKind::PermissionDenied, _) => "permission is denied".to_owned(),
        _ if path.is_dir() => "it is a folder".to_owned(),
        _ => error.to_string(),
    };
    let message = format!("{} cannot be {verb}: {reason}", shown(path));
    Diagnostic::new(Code::Io, message).within(path.display().to_string())
}

/// Returns the path of the file beside `path` with the most similar name.
fn similar_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let near = ident::nearest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}
