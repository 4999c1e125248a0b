//! Diagnostics: errors and warnings about a model, with location and help.

mod code;
mod count;
mod excerpt;
mod text;
mod visible;

pub use code::Code;
pub use count::{counted, there_are};
pub use excerpt::Excerpt;
pub use text::{Colors, Text};
pub use visible::{line, quoted, visible};

use std::{fmt, rc::Rc};

/// Whether a diagnostic stops the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The model compiles, but not exactly as it is written.
    Warning,
    /// The model does not compile.
    Error,
}

/// One diagnostic. The message stands on its own; the other fields say where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it stops the compilation.
    pub severity: Severity,
    /// The kind of diagnostic.
    pub code: Code,
    /// The error, with what was expected and what was found.
    pub message: String,
    /// The location, outermost first: file, graph, node, attribute or value.
    pub at: Vec<String>,
    /// The line of the model at the location.
    pub excerpt: Option<Box<Excerpt>>,
    /// Facts that help to find the cause.
    pub notes: Vec<String>,
    /// A way to fix it.
    pub help: Option<String>,
}

/// All diagnostics of a compilation. As an error, it has at least one of severity `Error`.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// The result of a step that stops at the first error.
pub type Result<T = ()> = std::result::Result<T, Diagnostic>;

impl Diagnostic {
    /// Makes an error without a location.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            at: Vec::new(),
            excerpt: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// Makes a warning without a location.
    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::new(code, message) }
    }

    /// Returns whether the diagnostic stops the compilation.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Adds `place` as the outermost part of the location.
    pub fn within(mut self, place: impl Into<String>) -> Diagnostic {
        self.at.insert(0, place.into());
        self
    }

    /// Sets the line of the model, unless a more exact one is set.
    pub fn excerpt(mut self, excerpt: impl FnOnce(&Diagnostic) -> Excerpt) -> Diagnostic {
        if self.excerpt.is_none() {
            self.excerpt = Some(Box::new(excerpt(&self)));
        }
        self
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Sets the help.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }
}

impl std::error::Error for Diagnostic {}

impl Diagnostics {
    /// Adds `place` as the outermost part of each location.
    pub fn within(self, place: &str) -> Diagnostics {
        Diagnostics(self.0.into_iter().map(|diagnostic| diagnostic.within(place)).collect())
    }

    /// Returns the warnings, if no diagnostic is an error.
    ///
    /// # Errors
    ///
    /// Returns all diagnostics if one of them is an error.
    pub fn into_warnings(self) -> std::result::Result<Vec<Diagnostic>, Diagnostics> {
        if self.0.iter().any(Diagnostic::is_error) { Err(self) } else { Ok(self.0) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        Diagnostics(vec![diagnostic])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// As `Display`, because a `main` that returns an error prints it by `Debug`.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model does not compile\n\n{self}")
    }
}

impl std::error::Error for Diagnostics {}

/// Collects diagnostics, so that one run shows all of them. Shared by reference.
#[derive(Clone, Default)]
pub struct DiagnosticSink(Rc<std::cell::RefCell<Vec<Diagnostic>>>);

impl DiagnosticSink {
    /// Adds a diagnostic.
    pub fn push(&self, diagnostic: Diagnostic) {
        self.0.borrow_mut().push(diagnostic);
    }

    /// Returns the value of `result`, or adds its diagnostic and returns `None`.
    pub fn keep<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|diagnostic| self.push(diagnostic)).ok()
    }

    /// Returns whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes all diagnostics, errors or not.
    pub fn take(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut *self.0.borrow_mut())
    }

    /// Takes all diagnostics.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics, if there are any.
    pub fn finish(&self) -> std::result::Result<(), Diagnostics> {
        let all = self.take();
        if all.is_empty() { Ok(()) } else { Err(Diagnostics(all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_its_location_from_the_outside_in() {
        let diagnostic = Diagnostic::new(Code::ShapeMismatch, "the inputs do not broadcast")
            .note("A: float[2, 3]")
            .help("make the last axes equal")
            .within("node `y` (Add)")
            .within("graph `main`");
        let text = "error[E0202]: the inputs do not broadcast\n  \
            --> graph `main` › node `y` (Add)\n   \
            = note: A: float[2, 3]\n   \
            = help: make the last axes equal";
        assert_eq!(diagnostic.to_string(), text);
    }
}
