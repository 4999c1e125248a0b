//! The text of diagnostics, in the form of rustc's messages.

use super::{Code, Diagnostic, Diagnostics, Severity, visible::visible};
use std::{collections::HashSet, fmt};

/// The most places that are printed for one kind of warning.
const MOST_PLACES: usize = 3;

/// The most characters of a message, a place or a note that are printed.
const MOST_CHARACTERS: usize = 1000;

/// The most notes of one entry that are printed.
const MOST_NOTES: usize = 10;

/// The length of the text after which entries are only counted, in bytes.
const MOST_BYTES: usize = 64 << 10;

/// Whether text has the colors of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// No colors.
    #[default]
    Plain,
    /// ANSI colors.
    Ansi,
}

/// Diagnostics as text. Warnings with one code share an entry, which has their number and the first
/// places. So do errors with one code and one message, which follow. An entry that would repeat
/// another is left out.
#[derive(Clone, Copy)]
pub struct Text<'d> {
    diagnostics: &'d [Diagnostic],
    colors: Colors,
    is_strict: bool,
}

/// The diagnostics of one entry.
struct Entry<'d> {
    first: &'d Diagnostic,
    more: Vec<&'d Diagnostic>,
}

impl<'d> Text<'d> {
    pub(super) fn of(diagnostics: &'d [Diagnostic]) -> Text<'d> {
        Text { diagnostics, colors: Colors::Plain, is_strict: false }
    }

    /// Sets the colors.
    #[must_use]
    pub fn colors(self, colors: Colors) -> Text<'d> {
        Text { colors, ..self }
    }

    /// Prints warnings about violations of the ONNX specification as errors.
    #[must_use]
    pub fn strict(self) -> Text<'d> {
        Text { is_strict: true, ..self }
    }

    /// Returns each entry in one line.
    pub fn lines(&self) -> Vec<String> {
        let line = |entry: Entry<'_>| {
            let Diagnostic { code, at, notes, .. } = entry.first;
            let place = at.iter().map(|part| format!("{part}: ")).collect::<String>();
            let notes = notes.last().map_or(String::new(), |note| format!("; {note}"));
            format!("{place}{}{notes} [{code}]", entry.message())
        };
        self.entries().into_iter().map(line).collect()
    }

    /// Returns the numbers of errors and warnings in words, if there are several diagnostics.
    pub fn count(&self) -> Option<String> {
        let entries = self.entries();
        let count = |is_error: bool, word: &str| {
            let of = entries.iter().filter(|entry| self.is_error(entry) == is_error);
            match of.map(|entry| 1 + entry.more.len()).sum() {
                0 => None,
                1 => Some(format!("one {word}")),
                count => Some(format!("{count} {word}s")),
            }
        };
        let counts = [count(true, "error"), count(false, "warning")];
        let is_one = matches!(&*entries, [entry] if entry.more.is_empty());
        (!is_one).then(|| counts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }

    /// Returns whether an entry is printed as an error.
    fn is_error(&self, entry: &Entry<'_>) -> bool {
        entry.first.is_error() || self.is_strict && entry.first.code.is_invalidity()
    }

    /// Returns the entries, warnings first.
    fn entries(&self) -> Vec<Entry<'d>> {
        // Several stages may report the same diagnostic at the same location.
        let mut said = HashSet::new();
        let (mut warnings, mut errors): (Vec<Entry<'_>>, Vec<Entry<'_>>) = (Vec::new(), Vec::new());
        for diagnostic in self.diagnostics {
            if !said.insert(diagnostic.to_string()) {
                continue;
            }
            let entries = if diagnostic.is_error() { &mut errors } else { &mut warnings };
            match entries.iter_mut().find(|entry| entry.includes(diagnostic)) {
                Some(entry) => entry.more.push(diagnostic),
                None => entries.push(Entry::of(diagnostic)),
            }
        }
        warnings.into_iter().chain(errors).collect()
    }
}

/// A hostile model may cause any number of errors, and name its parts at any length: long parts are
/// cut, and entries beyond a length of the whole text are counted.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entries, mut written) = (self.entries(), 0);
        for (i, entry) in entries.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "\n\n" })?;
            if written > MOST_BYTES {
                return write!(f, "… and {} more", entries.len() - i);
            }
            let severity = match self.is_error(entry) {
                true => Severity::Error,
                false => Severity::Warning,
            };
            let mut text = String::new();
            entry.write(severity, self.colors, &mut text)?;
            f.write_str(&text)?;
            written += text.len();
        }
        Ok(())
    }
}

/// Cuts a text that is too long, and says by how much. Escapes invisible characters in each line.
fn cut(text: &str) -> String {
    let end = text.char_indices().nth(MOST_CHARACTERS).map(|(end, _)| end);
    let (text, rest) = text.split_at(end.unwrap_or(text.len()));
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    let shown = lines.join("\n");
    match rest.chars().count() {
        0 => shown,
        more => format!("{shown}… ({more} more characters)"),
    }
}

/// Writes one diagnostic without colors.
pub(super) fn one(diagnostic: &Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    Entry::of(diagnostic).write(diagnostic.severity, Colors::Plain, f)
}

impl<'d> Entry<'d> {
    fn of(first: &'d Diagnostic) -> Entry<'d> {
        Entry { first, more: Vec::new() }
    }

    /// Returns whether a diagnostic is of the kind of this entry.
    fn includes(&self, other: &Diagnostic) -> bool {
        let is_alike = |other: &Diagnostic| {
            let first = self.first;
            (&first.message, &first.notes, &first.help)
                == (&other.message, &other.notes, &other.help)
        };
        self.first.code == other.code && (!other.is_error() || is_alike(other))
    }

    /// Returns the message, and the number of diagnostics if there are several.
    fn message(&self) -> String {
        match self.more.len() {
            0 => self.first.message.clone(),
            more => format!("{} (first of {})", self.first.message, more + 1),
        }
    }

    fn write(&self, severity: Severity, colors: Colors, f: &mut dyn fmt::Write) -> fmt::Result {
        let Diagnostic { code, excerpt, notes, help, .. } = self.first;
        let (label, color) = label(severity);
        let label = colors.paint(color, &title(label, *code));
        write!(f, "{label}{}", colors.paint(BOLD, &format!(": {}", cut(&self.message()))))?;
        let all = std::iter::once(self.first).chain(self.more.iter().copied());
        for (i, place) in all.map(|one| &one.at).filter(|at| !at.is_empty()).enumerate() {
            if i == MOST_PLACES {
                break;
            }
            let arrow = colors.paint(BLUE, if i == 0 { "-->" } else { ":::" });
            write!(f, "\n  {arrow} {}", cut(&place.join(" › ")))?;
        }
        if let Some(excerpt) = excerpt {
            let (bar, marks) = (colors.paint(BLUE, "|"), colors.paint(color, &excerpt.marks()));
            write!(f, "\n   {bar}\n   {bar} {}\n   {bar} {marks}", excerpt.line)?;
        }
        let remark = |f: &mut dyn fmt::Write, label: &str, text: &str| {
            let (equals, label) = (colors.paint(BLUE, "="), colors.paint(BOLD, label));
            write!(f, "\n   {equals} {label}: {}", cut(text))
        };
        if self.more.len() >= MOST_PLACES {
            remark(f, "note", &more_places(self.more.len() + 1 - MOST_PLACES))?;
        }
        notes.iter().take(MOST_NOTES).try_for_each(|note| remark(f, "note", note))?;
        if notes.len() > MOST_NOTES {
            remark(f, "note", &format!("… and {} more notes", notes.len() - MOST_NOTES))?;
        }
        help.iter().try_for_each(|help| remark(f, "help", help))
    }
}

fn more_places(count: usize) -> String {
    if count == 1 { "and one more place".to_owned() } else { format!("and {count} more places") }
}

fn title(label: &str, code: Code) -> String {
    format!("{label}[{code}]")
}

/// The codes of the colors that rustc uses.
const BOLD: &str = "1";
const BLUE: &str = "1;94";
const RED: &str = "1;91";
const YELLOW: &str = "1;33";

/// Returns the word for a severity, and its color.
fn label(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Error => ("error", RED),
        Severity::Warning => ("warning", YELLOW),
    }
}

impl Colors {
    fn paint(self, color: &str, text: &str) -> String {
        match self {
            Colors::Plain => text.to_owned(),
            Colors::Ansi => format!("\u{1b}[{color}m{text}\u{1b}[0m"),
        }
    }
}

impl Diagnostics {
    /// Returns the text of the diagnostics, with one entry for all warnings of a kind.
    pub fn text(&self) -> Text<'_> {
        Text::of(&self.0)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Diagnostics;

    fn unsorted(node: &str) -> Diagnostic {
        Diagnostic::warning(Code::NotSorted, format!("{node} is too early")).within(node)
    }

    #[test]
    fn warnings_of_a_kind_share_an_entry_before_the_errors() {
        let error = Diagnostic::new(Code::ShapeMismatch, "the inputs do not broadcast");
        let all =
            [error, unsorted("a"), unsorted("b"), unsorted("a"), unsorted("c"), unsorted("d")];
        let all = Diagnostics(all.into());
        let text = "warning[E0108]: a is too early (first of 4)\n  \
            --> a\n  \
            ::: b\n  \
            ::: c\n   \
            = note: and one more place\n\n\
            error[E0202]: the inputs do not broadcast";
        assert_eq!(all.to_string(), text);
        assert!(all.text().strict().to_string().starts_with("error[E0108]: a is"));
        assert_eq!(all.text().lines()[0], "a: a is too early (first of 4) [E0108]");
    }

    #[test]
    fn equal_errors_share_an_entry_and_all_are_counted() {
        let error = |operator: &str, node: &str| {
            Diagnostic::new(Code::UnknownOperator, format!("no {operator}")).within(node)
        };
        let all = Diagnostics(vec![
            error("Foo", "a"),
            unsorted("b"),
            error("Foo", "c"),
            error("Bar", "d"),
        ]);
        let text = "warning[E0108]: b is too early\n  --> b\n\n\
            error[E0111]: no Foo (first of 2)\n  --> a\n  ::: c\n\n\
            error[E0111]: no Bar\n  --> d";
        assert_eq!(all.to_string(), text);
        let counts = [all.text(), all.text().strict()].map(|text| text.count());
        assert_eq!(counts, [Some("3 errors and one warning".into()), Some("4 errors".into())]);
        assert_eq!(Diagnostics(vec![unsorted("b")]).text().count(), None);
    }

    #[test]
    fn long_texts_are_cut_with_a_count() {
        let long = "é".repeat(1500);
        let error = |i: usize| {
            let error = Diagnostic::new(Code::ShapeMismatch, format!("{i} {long}"));
            (0..12).fold(error, |error, i| error.note(format!("note {i}"))).within(&long)
        };
        let one = Diagnostics(vec![error(0)]).to_string();
        assert!(
            one.contains("… (502 more characters)\n  --> é") && one.contains("note 9"),
            "{one}"
        );
        assert!(one.contains("… and 2 more notes") && !one.contains("note 10"), "{one}");
        let all = Diagnostics((0..1000).map(error).collect()).to_string();
        assert!(all.len() < 80 << 10, "{}", all.len());
        let (_, count) = all.rsplit_once("\n\n").expect("there are several entries");
        assert!(count.starts_with("… and 9") && count.ends_with(" more"), "{count}");
    }

    #[test]
    fn colors_are_those_of_a_terminal() {
        let all = Diagnostics(vec![unsorted("a")]);
        let text = all.text().colors(Colors::Ansi).to_string();
        assert!(text.starts_with("\u{1b}[1;33mwarning[E0108]\u{1b}[0m\u{1b}[1m: a is"), "{text:?}");
    }
}
