//! What is said to the person whose model does not compile.

use std::{collections::BTreeSet, fmt, rc::Rc};

/// One finding. The message stands on its own; the rest says where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of finding.
    pub code: Code,
    /// What is wrong, with what was expected and what was found.
    pub message: String,
    /// Where it is, from the outside in: file, graph, node, attribute or value.
    pub at: Vec<String>,
    /// What to look at.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
}

/// All findings of a run; never empty where it is an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// The result of a step that can find one thing wrong.
pub type Result<T = ()> = std::result::Result<T, Diagnostic>;

/// Defines the kinds of finding: number, name and explanation in one place.
macro_rules! codes {
    ($($name:ident = $number:literal: $explanation:literal)*) => {
        /// Every kind of finding. The numbers are for good.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $explanation] $name = $number,)*
        }

        impl Code {
            /// All kinds, by number.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// A paragraph for a person who has met this finding.
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Code::$name => $explanation,)*
                }
            }
        }
    };
}

codes! {
    Io = 1: "A file could not be read or written. The message has the system's own words."
    NotAModel = 2: "The file is not an ONNX model: it is empty, cut short, or of another format."
    BadOption = 3: "An option names something that the model does not have, or has a value that does not fit."
    BadSyntax = 4: "The model is text, but the text does not follow ONNX's textual syntax. The message says what was expected, and at which line and column."
    Refused = 5: "The model compiled, but refuses the inputs that it was given: their number, types or sizes do not fit the model, or each other, or a value is not allowed."
    MissingField = 101: "A field that the ONNX specification requires is absent."
    BadField = 102: "A field has a value that the ONNX specification does not allow."
    BadTensor = 103: "The data of a tensor does not fit its type and shape."
    BadExternalData = 104: "A tensor stored in a file of its own cannot be read: the file is missing, too short, outside the model's directory, or reached through a link."
    DuplicateName = 105: "Two values, nodes' outputs or inputs of one scope have the same name; ONNX graphs are in single-assignment form."
    UndefinedValue = 106: "A node or a graph output names a value that nothing before it defines: an initializer is missing, or the nodes are not in topological order."
    UnknownOperator = 111: "The operator does not exist in the operator set that the model imports, or onnxc does not know it."
    UnknownDomain = 112: "A node uses an operator set that the model does not import."
    BadAttribute = 113: "An attribute is missing, unknown to the operator, of the wrong type, or has a value that the operator does not allow."
    BadArity = 114: "A node has too few or too many inputs or outputs for its operator."
    Deprecated = 115: "The operator was removed from ONNX before the version that the model imports."
    TypeMismatch = 201: "A value has an element type, or a kind, that the operator does not allow there."
    ShapeMismatch = 202: "The sizes of the inputs do not fit together, or do not fit the operator."
    DeclaredMismatch = 203: "The model declares a type for a value that differs from the one that its node gives it."
    UnknownShape = 204: "The number of axes of a value cannot be known before running, and code for any number of axes is not generated."
    NoGradient = 205: "The model asks for a gradient along a path that has none: an operator on it has no derivative, or all paths go through operators whose derivative is zero everywhere. The notes show the path."
    Unsupported = 301: "The model is valid, but onnxc cannot compile this part of it yet; the message says which."
    TooLarge = 302: "A size does not fit the address space, or passes a limit of the compiler."
    NeedsHeap = 303: "A size is unbounded, so the value needs the heap; bounding the dimension (`--dim NAME=1..=N`) makes the memory static."
    Internal = 900: "onnxc broke one of its own rules. This is a bug of onnxc; please report it with the model."
}

impl Code {
    /// The kind of that number.
    pub fn from_number(number: u32) -> Option<Code> {
        Code::ALL.iter().copied().find(|&code| code as u32 == number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", *self as u32)
    }
}

impl Diagnostic {
    /// A finding that has yet to be located.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: message.into(), at: Vec::new(), notes: Vec::new(), help: None }
    }

    /// Puts it inside `place`; called from the inside out.
    pub fn within(mut self, place: impl Into<String>) -> Diagnostic {
        self.at.insert(0, place.into());
        self
    }

    /// Adds something to look at.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Says what to do.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }
}

/// A name for people: in backticks, on one line, without characters that change how text reads.
pub fn quoted(name: &str) -> String {
    const LONGEST: usize = 200;
    let mut text = String::from("`");
    for c in name.chars().take(LONGEST) {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hidden {
            text.extend(c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text.push('`');
    text
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        if !self.at.is_empty() {
            write!(f, "\n  --> {}", self.at.join(" › "))?;
        }
        for note in &self.notes {
            write!(f, "\n   = note: {note}")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n   = help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

impl Diagnostics {
    /// Every finding inside `place`.
    pub fn within(self, place: &str) -> Diagnostics {
        Diagnostics(self.0.into_iter().map(|finding| finding.within(place)).collect())
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(finding: Diagnostic) -> Diagnostics {
        Diagnostics(vec![finding])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The same fault at the same place is said once, however many rooms met it.
        let mut said = BTreeSet::new();
        let texts = self.0.iter().map(ToString::to_string);
        let texts: Vec<String> = texts.filter(|text| said.insert(text.clone())).collect();
        f.write_str(&texts.join("\n\n"))
    }
}

/// As `Display`: what `main() -> Result<(), Box<dyn Error>>` prints is meant for people.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model does not compile\n\n{self}")
    }
}

impl std::error::Error for Diagnostics {}

/// Gathers findings, so that a person learns of all of them in one run. Shared by reference.
#[derive(Clone, Default)]
pub struct Findings(Rc<std::cell::RefCell<Vec<Diagnostic>>>);

impl Findings {
    /// Takes a finding in.
    pub fn push(&self, finding: Diagnostic) {
        self.0.borrow_mut().push(finding);
    }

    /// The value of `result`, or `None` with its finding taken in.
    pub fn keep<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|finding| self.push(finding)).ok()
    }

    /// `Err` with all findings, where there are any.
    pub fn finish(&self) -> std::result::Result<(), Diagnostics> {
        let all = std::mem::take(&mut *self.0.borrow_mut());
        if all.is_empty() { Ok(()) } else { Err(Diagnostics(all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_from_the_outside_in() {
        let finding = Diagnostic::new(Code::ShapeMismatch, "the inputs do not broadcast")
            .note("A: float[2, 3]")
            .help("make the last axes equal")
            .within("node `y` (Add)")
            .within("graph `main`");
        let text = "error[E0202]: the inputs do not broadcast\n  --> graph `main` › node `y` (Add)\n   = note: A: float[2, 3]\n   = help: make the last axes equal";
        assert_eq!(finding.to_string(), text);
    }

    #[test]
    fn names_cannot_disturb_the_text() {
        assert_eq!(quoted("a\nb\u{202e}"), "`a\\u{a}b\\u{202e}`");
        assert!(quoted(&"x".repeat(10_000)).chars().count() < 210);
    }

    #[test]
    fn numbers_are_in_order_and_unique() {
        assert!(Code::ALL.windows(2).all(|pair| (pair[0] as u32) < pair[1] as u32));
        assert_eq!(Code::from_number(202), Some(Code::ShapeMismatch));
    }
}
