//! `Tokenizer` of ONNX Runtime: splits strings into tokens. The patterns are compiled to automata
//! at compile time.

use super::automaton::{AUTOMATA, Automaton, Step, too_large};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, STRING_ONLY},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    limits::{Budget, Limit},
    ops::{Entry, microsoft},
    plan::{Kernel, geometry::Tokens, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] =
    &[microsoft("Tokenizer", |node| Ok(Rc::new(Tokenizer::read(node)?) as Rc<dyn Op>))];

/// The tokens of each string along a new axis, padded to the same number.
pub struct Tokenizer {
    rule: Rule,
    /// The least number of characters of a token.
    least: usize,
    /// Whether the characters U+0002 and U+0003 enclose the tokens of a string.
    mark: bool,
    /// The text that fills the rows of strings with fewer tokens.
    pad: String,
    table: Table,
}

/// A way to find tokens.
enum Rule {
    /// The patterns of what separates tokens, which apply one after another.
    Separators(Vec<String>),
    /// The pattern of a token.
    Token(String),
}

/// The tables of automata, as the kernels read them.
struct Table {
    /// The class of each byte, 256 for each automaton.
    classes: Vec<u8>,
    /// The rows of states.
    rows: Vec<u16>,
    /// The row of each automaton's starting states.
    firsts: Vec<u32>,
    /// The length of a row.
    columns: usize,
}

macro_rules! kernels {
    ($sizes:ident $name:ident) => {
        (
            kernel!(STRING_ONLY T, text::$sizes { operands: text::TokenizerOperands {
                x: input(0), classes: input(1), table: input(2), firsts: input(3), pad: input(4),
            } }, |f, a, p| f(a.sizes(), operands, p.0)),
            kernel!(STRING_ONLY T, text::$name { operands: text::TokenizerOperands {
                x: input(0), classes: input(1), table: input(2), firsts: input(3), pad: input(4),
            } }, |f, a, p| f(operands, a.output(0), p.0, p.1)),
        )
    };
}

static SEPARATE: (Kernel<(Tokens,)>, Kernel<(Tokens, Dim)>) = kernels!(tokenizer_sizes tokenizer);
static MATCH: (Kernel<(Tokens,)>, Kernel<(Tokens, Dim)>) =
    kernels!(tokenizer_matches_sizes tokenizer_matches);

impl Tokenizer {
    fn read(node: &mut Reader<'_>) -> Result<Tokenizer> {
        let bad = |message: String| Diagnostic::new(Code::BadAttribute, message);
        let least = node.required_int("mincharnum")?;
        let separators = node.maybe_strings("separators")?.unwrap_or_default();
        let token = node.maybe_string("tokenexp")?.unwrap_or_default();
        let rule = match (separators.is_empty(), token.is_empty()) {
            (false, _) => Rule::Separators(separators),
            (true, false) => Rule::Token(token),
            (true, true) => {
                let message = "the attributes `separators` and `tokenexp` are both missing";
                return Err(Diagnostic::new(Code::MissingAttribute, message)
                    .help("give one of them: patterns of what separates tokens, or of a token"));
            }
        };
        let Some(size) = usize::try_from(least).ok().filter(|&least| least > 0) else {
            return Err(bad(format!("`mincharnum` is {least}, but must be at least 1")));
        };
        if rule.is_of_characters() && size > 1 {
            let message = format!("`mincharnum` is {least}, but each token is one character");
            return Err(bad(message));
        }
        let pad = node.maybe_string("pad_value")?.ok_or_else(|| {
            let message = "the attribute `pad_value` is missing";
            Diagnostic::new(Code::MissingAttribute, message)
        })?;
        let mark = node.required_int("mark")? != 0;
        let table = rule.compile(node.budget())?;
        Ok(Tokenizer { rule, least: size, mark, pad, table })
    }
}

impl Rule {
    /// Returns whether each character is a token, which an attribute says by one value.
    fn is_of_characters(&self) -> bool {
        match self {
            Rule::Separators(patterns) => matches!(patterns.as_slice(), [only] if only.is_empty()),
            Rule::Token(pattern) => pattern == ".",
        }
    }

    fn compile(&self, budget: &Budget) -> Result<Table> {
        match self {
            _ if self.is_of_characters() => Table::of("tokenexp", &["(?s).".to_owned()], budget),
            Rule::Separators(patterns) => Table::of("separators", patterns, budget),
            Rule::Token(pattern) => Table::of("tokenexp", std::slice::from_ref(pattern), budget),
        }
    }
}

impl Table {
    fn of(attribute: &str, patterns: &[String], budget: &Budget) -> Result<Table> {
        let compile = |pattern: &String| Automaton::compile(attribute, pattern, ["", ""], budget);
        let mut automata = patterns.iter().map(compile).collect::<Result<Vec<_>>>()?;
        let classes = automata.iter().flat_map(|automaton| automaton.classes.clone()).collect();
        let most = automata.iter().map(|automaton| automaton.members.len()).max().unwrap_or(0);
        let mut table = Table { classes, rows: Vec::new(), firsts: Vec::new(), columns: most + 1 };
        for (automaton, pattern) in automata.iter_mut().zip(patterns) {
            let rows = read_rows(automaton)?;
            // Rows with fewer classes than the longest ones are padded.
            let bytes = rows.len() * table.columns * size_of::<u16>();
            budget.spend(Limit::PatternBytes, bytes, AUTOMATA)?;
            table.push(&rows).ok_or_else(|| too_large(pattern))?;
        }
        Ok(table)
    }

    /// Appends the rows of an automaton, or returns `None` if the table becomes too long.
    fn push(&mut self, rows: &[Vec<Step>]) -> Option<()> {
        let first = self.rows.len() / self.columns;
        self.firsts.push(u32::try_from(first).ok()?);
        let entry = |step: &Step| {
            let row = if step.next == 0 { 0 } else { first + usize::from(step.next) };
            u16::try_from(2 * row + usize::from(step.is_match)).ok()
        };
        for row in rows {
            let (end, steps) = row.split_last()?;
            let width = self.columns - 1 - steps.len();
            self.rows.extend(steps.iter().map(entry).collect::<Option<Vec<_>>>()?);
            self.rows.extend(std::iter::repeat_n(0, width));
            self.rows.push(entry(end)?);
        }
        Some(())
    }
}

/// Returns the rows of an automaton: the starting states after each class of bytes and at the start
/// of the text, and for each state the transitions by each class and by the end of the text.
fn read_rows(automaton: &mut Automaton) -> Result<Vec<Vec<Step>>> {
    let members = automaton.members.iter().copied().map(Some);
    let columns: Vec<Option<u8>> = members.chain([None]).collect();
    let start = |&before: &_| Ok(Step { next: automaton.start(before)?, is_match: false });
    let mut rows = vec![columns.iter().map(start).collect::<Result<Vec<_>>>()?];
    while rows.len() <= automaton.state_count() {
        let state = rows.len();
        let row = columns.iter().map(|&byte| automaton.step(state, byte));
        rows.push(row.collect::<Result<Vec<_>>>()?);
    }
    Ok(rows)
}

impl Op for Tokenizer {
    fn name(&self) -> &'static str {
        "Tokenizer"
    }

    fn domain(&self) -> Domain {
        Domain::Microsoft
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("mark", i64::from(self.mark));
        a.int("mincharnum", i64::try_from(self.least).unwrap_or(i64::MAX));
        a.string("pad_value", &self.pad);
        match &self.rule {
            Rule::Separators(patterns) => a.strings("separators", patterns),
            Rule::Token(pattern) => a.string("tokenexp", pattern),
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, STRING_ONLY)?.shape.to_vec();
        if !matches!(shape.len(), 1 | 2) {
            let message = format!("input 0 must have one or two axes, but has {}", shape.len());
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let width = cx.fresh_sizes([None]);
        Ok(vec![Type::tensor(DType::String, [&shape[..], &width[..]].concat())])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let Table { classes, rows, firsts, columns } = &self.table;
        let tokens = Tokens { columns: *columns, least: self.least, mark: self.mark };
        let weights = [
            Tensor::from_bytes(classes),
            Tensor::from_u16s(rows),
            Tensor::from_places(firsts),
            Tensor::from_text(&self.pad),
        ];
        let mut inputs = vec![cx.input(0)?.into()];
        inputs.extend(weights.iter().map(|weight| cx.weight(weight).into()));
        let (sizes, kernel) = match &self.rule {
            _ if self.rule.is_of_characters() => &MATCH,
            Rule::Token(_) => &MATCH,
            Rule::Separators(_) => &SEPARATE,
        };
        let width = Dim::symbol(&cx.node().binds[0]);
        cx.bind(sizes, DType::String, inputs.clone(), (tokens.clone(),))?;
        let outputs = vec![cx.output(0)?.into()];
        cx.call_on(kernel, DType::String, inputs, outputs, (tokens, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};
    use onnxc_runtime::kernels::text;

    fn separators(patterns: &[&str]) -> Rule {
        Rule::Separators(patterns.iter().map(ToString::to_string).collect())
    }

    fn tokenizer(rule: Rule) -> Result<Tokenizer> {
        let table = rule.compile(&Budget::default())?;
        Ok(Tokenizer { rule, least: 1, mark: false, pad: String::new(), table })
    }

    /// Returns the tokens of one text.
    fn tokens(rule: Rule, x: &str) -> String {
        let Tokenizer { rule, table, .. } = tokenizer(rule).expect("the patterns are valid");
        let operands = text::TokenizerOperands {
            x: &[x.to_owned()],
            classes: &table.classes,
            table: &table.rows,
            firsts: &table.firsts,
            pad: b"",
        };
        let geometry = text::Tokens { columns: table.columns, least: 1, mark: false };
        let mut y = vec![String::new(); 8];
        match rule {
            Rule::Separators(_) => text::tokenizer(operands, &mut y, geometry, 8),
            Rule::Token(_) => text::tokenizer_matches(operands, &mut y, geometry, 8),
        }
        y.join("|").trim_end_matches('|').to_owned()
    }

    #[test]
    fn tokens_lie_along_a_new_axis() {
        let x = tensor(DType::String, [Dim::symbol("n")]);
        let op = || tokenizer(separators(&[" "])).expect("the pattern is valid");
        check(op(), &[x], 1, "string[n, y0_0]");
        let one = tensor::<Dim, 0>(DType::String, []);
        check(op(), &[one], 1, "input 0 must have one or two axes, but has 0");
    }

    #[test]
    fn matches_are_the_longest_from_the_left() {
        let token = |pattern: &str| Rule::Token(pattern.into());
        assert_eq!(tokens(token("[a-z0-9_]+"), "ab, c_1 É!"), "ab|c_1");
        assert_eq!(tokens(token("a|ab|abc"), "abc ab"), "abc|ab");
        assert_eq!(tokens(token("^ab"), "abab ab"), "ab");
        assert_eq!(tokens(token(r"\bab"), "abab ab"), "ab|ab");
        assert_eq!(tokens(token("b$"), "bab"), "b");
        assert_eq!(tokens(token("."), "é\n"), "é|\n");
    }

    #[test]
    fn each_separator_sees_the_tokens_of_the_previous_one() {
        assert_eq!(tokens(separators(&["X", "XX"]), "aXXb"), "a|b");
        assert_eq!(tokens(separators(&[r"\s+", "-"]), " a-b \t c"), "a|b|c");
        assert_eq!(tokens(separators(&["^a", " ", "^c"]), "ab cd"), "b|d");
        assert_eq!(tokens(separators(&[r"\b"]), "abab ab"), "bab|b");
    }
}
