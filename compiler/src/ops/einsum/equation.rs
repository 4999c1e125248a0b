//! Parses the equations of `Einsum`.

use crate::{diag::counted, dim::Dim};
use std::collections::BTreeMap;

/// A parsed equation.
#[derive(Debug, PartialEq)]
pub struct Equation {
    /// The term of each operand.
    terms: Vec<Vec<Subscript>>,
    /// The term of the result; `None` for an implicit result.
    output: Option<Vec<Subscript>>,
}

/// An element of a term.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subscript {
    Letter(char),
    Ellipsis,
}

/// The label of an axis. Axes with the same label have the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// An axis of an ellipsis, counted from the ellipsis's last axis.
    Ellipsis(usize),
    /// A letter.
    Letter(char),
}

/// The sizes of the axes of each label.
pub type Sizes = BTreeMap<Label, Dim>;

/// The labels of every axis.
#[derive(Debug, PartialEq)]
pub struct Labels {
    /// The labels of each operand.
    pub terms: Vec<Vec<Label>>,
    /// The labels of the result.
    pub output: Vec<Label>,
}

impl Equation {
    /// Parses an equation. The error is a message.
    pub fn parse(text: &str) -> Result<Equation, String> {
        let text: String = text.chars().filter(|c| *c != ' ').collect();
        let (terms, output) = match text.split_once("->") {
            Some((terms, output)) => (terms, Some(parse_term(output)?)),
            None => (text.as_str(), None),
        };
        let terms = terms.split(',').map(parse_term).collect::<Result<_, _>>()?;
        Ok(Equation { terms, output })
    }

    /// The labels of operands of these ranks. The error is a message.
    pub fn labels(&self, ranks: &[usize]) -> Result<Labels, String> {
        if ranks.len() != self.terms.len() {
            let (terms, operands) = (self.terms.len(), ranks.len());
            return Err(format!("the equation has {terms} terms for {operands} operands"));
        }
        let mut terms = Vec::new();
        let mut ellipsis = 0;
        for (i, (term, &rank)) in self.terms.iter().zip(ranks).enumerate() {
            let letters = term.iter().filter(|part| **part != Subscript::Ellipsis).count();
            let has_ellipsis = letters < term.len();
            let covered = rank.checked_sub(letters).filter(|&axes| has_ellipsis || axes == 0);
            let Some(covered) = covered else {
                let axes = counted(rank, "axis");
                return Err(format!("operand {i} has {axes}, but its term names {letters}"));
            };
            ellipsis = ellipsis.max(covered);
            terms.push(expand_term(term, covered));
        }
        let output = match &self.output {
            Some(output) => expand_term(output, ellipsis),
            None => implicit_output(&terms, ellipsis),
        };
        check_output(&terms, &output)?;
        Ok(Labels { terms, output })
    }
}

fn parse_term(text: &str) -> Result<Vec<Subscript>, String> {
    let text = text.replace("...", "…");
    let part = |c: char| match c {
        '…' => Ok(Subscript::Ellipsis),
        _ if c.is_ascii_alphabetic() => Ok(Subscript::Letter(c)),
        _ => Err(format!("`{}` is not allowed in an equation", c.escape_default())),
    };
    let parts: Vec<Subscript> = text.chars().map(part).collect::<Result<_, _>>()?;
    if parts.iter().filter(|part| **part == Subscript::Ellipsis).count() > 1 {
        return Err("a term has more than one ellipsis".into());
    }
    Ok(parts)
}

/// The labels of a term whose ellipsis covers `ellipsis` axes.
fn expand_term(term: &[Subscript], ellipsis: usize) -> Vec<Label> {
    let labels = term.iter().flat_map(|part| match part {
        Subscript::Letter(c) => vec![Label::Letter(*c)],
        Subscript::Ellipsis => (0..ellipsis).rev().map(Label::Ellipsis).collect(),
    });
    labels.collect()
}

/// The result of an equation without `->`: the ellipsis, and then the letters that occur once, in
/// alphabetical order.
fn implicit_output(terms: &[Vec<Label>], ellipsis: usize) -> Vec<Label> {
    let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
    for label in terms.iter().flatten() {
        *counts.entry(*label).or_default() += 1;
    }
    let once = counts.into_iter().filter(|(label, n)| matches!(label, Label::Letter(_)) && *n == 1);
    (0..ellipsis).rev().map(Label::Ellipsis).chain(once.map(|(label, _)| label)).collect()
}

/// Checks that the labels of the result are distinct and occur in an operand.
fn check_output(terms: &[Vec<Label>], output: &[Label]) -> Result<(), String> {
    for (i, label) in output.iter().enumerate() {
        if output[..i].contains(label) {
            return Err("the result names an axis twice".into());
        }
        if !terms.iter().flatten().any(|other| other == label) {
            return Err("the result names an axis that no operand has".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str, ranks: &[usize]) -> Result<String, String> {
        let labels = Equation::parse(text)?.labels(ranks)?;
        let name = |label: &Label| match label {
            Label::Letter(c) => c.to_string(),
            Label::Ellipsis(i) => i.to_string(),
        };
        let term = |term: &Vec<Label>| term.iter().map(name).collect::<String>();
        let terms: Vec<String> = labels.terms.iter().map(term).collect();
        Ok(format!("{}->{}", terms.join(","), term(&labels.output)))
    }

    #[test]
    fn an_explicit_equation_labels_every_axis() {
        assert_eq!(labels("ij, jk -> ik", &[2, 2]), Ok("ij,jk->ik".into()));
        assert_eq!(labels("b...i,...i->b...", &[4, 2]), Ok("b10i,0i->b10".into()));
        assert_eq!(labels("...,i->...i", &[0, 1]), Ok(",i->i".into()));
    }

    #[test]
    fn an_implicit_result_keeps_the_ellipsis_and_letters_that_occur_once() {
        assert_eq!(labels("bA,bc", &[2, 2]), Ok("bA,bc->Ac".into()));
        assert_eq!(labels("...ii", &[4]), Ok("10ii->10".into()));
        assert_eq!(labels("i,i", &[1, 1]), Ok("i,i->".into()));
    }

    #[test]
    fn malformed_equations_are_errors() {
        for (text, ranks) in [
            ("ij->ik", &[2][..]),
            ("ij->ii", &[2]),
            ("ij", &[3]),
            ("i...j", &[1]),
            ("i,j", &[1]),
            ("i+j", &[1]),
            ("......", &[1]),
            ("i..", &[1]),
            ("i.", &[1]),
        ] {
            assert!(labels(text, ranks).is_err(), "{text}");
        }
    }
}
