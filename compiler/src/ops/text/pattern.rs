//! `RegexFullMatch`: tests whether strings match a pattern. The pattern is compiled to an automaton
//! at compile time, so the program needs only the automaton's table.

use super::automaton::Automaton;
use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, STRING_ONLY},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader},
    limits::Budget,
    ops::{Entry, entry},
    plan::{Kernel, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("RegexFullMatch", 20, read)];

/// Whether a whole string matches a pattern.
pub struct RegexFullMatch {
    /// The pattern, in RE2's syntax.
    pub pattern: String,
    table: Table,
}

/// The table of an automaton, as the kernel reads it.
struct Table {
    /// The class of each byte.
    classes: Vec<u8>,
    /// A row for each state: the next state for each class, and whether the end of the text
    /// matches.
    next: Vec<u16>,
    /// The length of a row.
    width: usize,
}

static REGEX_FULL_MATCH: Kernel<(usize,)> = kernel!(STRING_ONLY T, text::regex_full_match,
    |f, a, p| f(a.input::<T>(0), a.input(1), a.input(2), a.output(0), p.0));

fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let missing = || Diagnostic::new(Code::BadAttribute, "the attribute `pattern` is missing");
    let pattern = node.maybe_string("pattern")?.ok_or_else(missing)?;
    let table = Table::of(&pattern, node.budget())?;
    Ok(Rc::new(RegexFullMatch { pattern, table }))
}

impl Table {
    /// Compiles a pattern to an automaton.
    fn of(pattern: &str, budget: &Budget) -> Result<Table> {
        let mut automaton = Automaton::compile("pattern", pattern, [r"\A", r"\z"], budget)?;
        let start = automaton.start(None)?;
        let (classes, members) = (automaton.classes.clone(), automaton.members.clone());
        let width = members.len() + 1;
        let mut next = vec![0; width];
        let mut done = 0;
        while done < automaton.state_count() {
            done += 1;
            for &byte in &members {
                next.push(automaton.step(done, Some(byte))?.next);
            }
            next.push(u16::from(automaton.step(done, None)?.is_match));
        }
        if start == 0 {
            // Nothing matches. The kernel starts in the first state, which then rejects all.
            next.resize(2 * width, 0);
        }
        Ok(Table { classes, next, width })
    }
}

impl Op for RegexFullMatch {
    fn name(&self) -> &'static str {
        "RegexFullMatch"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("pattern", &self.pattern);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = &cx.of(0, STRING_ONLY)?.shape;
        Ok(vec![Type::tensor(DType::Bool, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let Table { classes, next, width } = &self.table;
        let classes = cx.weight(&Tensor::from_bytes(classes)).into();
        let next = cx.weight(&Tensor::from_u16s(next)).into();
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let inputs = vec![x, classes, next];
        cx.call_on(&REGEX_FULL_MATCH, DType::String, inputs, vec![y], (*width,))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pattern: &str) -> Result<Table> {
        Table::of(pattern, &Budget::default())
    }

    /// Returns whether each text matches.
    fn matches(pattern: &str, texts: &[&str]) -> Vec<bool> {
        let table = table(pattern).expect(pattern);
        let x: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let mut y = vec![false; x.len()];
        onnxc_runtime::kernels::text::regex_full_match(
            &x,
            &table.classes,
            &table.next,
            &mut y,
            table.width,
        );
        y
    }

    /// Checks which of some texts match.
    fn check(pattern: &str, expected: &[&str]) {
        const TEXTS: &[&str] = &[
            "", "ab", "a&b", "a{,3}", "a.b", "K", "x_y", "A", "9", "-", "a\nb", "é", "c-e", "aaa",
            "ab ab", "\u{212a}", "日本",
        ];
        let matched = matches(pattern, TEXTS);
        let matched: Vec<&str> = TEXTS
            .iter()
            .zip(matched)
            .filter(|(_, matches)| *matches)
            .map(|(text, _)| *text)
            .collect();
        assert_eq!(matched, expected, "{pattern}");
    }

    #[test]
    fn patterns_have_their_meaning_in_re2() {
        check("", &[""]);
        check("a|b|ab", &["ab"]);
        check(r"\w+", &["ab", "K", "x_y", "A", "9", "aaa"]);
        check("[a&&b]+", &["ab", "a&b", "aaa"]);
        check(r"\bab\b( ab)?", &["ab", "ab ab"]);
        check("a{,3}", &["a{,3}"]);
        check("a{2,3}", &["aaa"]);
        check(r"\Qa.b\E", &["a.b"]);
        check("(?i)k", &["K", "\u{212a}"]);
        check(r"x\_y|\101", &["x_y", "A"]);
        check(r"[\d-z]", &["9", "-"]);
        check("[a-c-e]+", &["ab", "-", "c-e", "aaa"]);
        check("^ab$", &["ab"]);
        check("a$b", &[]);
        check(r"\Ba", &[]);
        check(r"(?m)^a$\n^b$", &["a\nb"]);
        check("a.b", &["a&b", "a.b"]);
        check("(?s)a.b", &["a&b", "a.b", "a\nb"]);
        check(r"\pL+", &["ab", "K", "A", "é", "aaa", "\u{212a}", "日本"]);
        check(r"\p{^L}|\p{Han}+", &["9", "-", "日本"]);
        check("[[:word:]]+", &["ab", "K", "x_y", "A", "9", "aaa"]);
        check("[[:^alpha:]]", &["9", "-", "é", "\u{212a}"]);
        check(r"\C\C", &["ab", "é"]);
        check("(?P<x>a)(?<y>b)", &["ab"]);
        check("[^[a]", &["K", "A", "9", "-", "é", "\u{212a}"]);
        check("a+?b*", &["ab", "aaa"]);
    }

    #[test]
    fn invalid_patterns_of_re2_are_errors() {
        for pattern in [
            "a**", "(", "[", "a)", "a)(b", r"\1", r"\q", "(?x)a", "(?=a)", "a{1001}", "*",
            r"[b-\d]",
        ] {
            let diagnostic = table(pattern).err().map(|diagnostic| diagnostic.code);
            assert_eq!(diagnostic, Some(Code::BadAttribute), "{pattern}");
        }
    }

    #[test]
    fn automata_are_minimal() {
        let states = |pattern| {
            let table = table(pattern).expect("the pattern is valid");
            table.next.len() / table.width
        };
        assert_eq!(states("ab|cb|db"), 4);
        assert_eq!(states("[0-9]*"), 2);
    }

    #[test]
    fn a_pattern_with_too_many_states_is_an_error() {
        let diagnostic = table("(a|b)*a(a|b){30}").err().map(|diagnostic| diagnostic.code);
        assert_eq!(diagnostic, Some(Code::Unsupported));
    }
}
