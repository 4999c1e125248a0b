//! The equations of `Einsum`: which axes of the operands are multiplied and summed.

use crate::dim::Dim;
use std::collections::BTreeMap;

/// An equation as it is written.
#[derive(Debug, PartialEq)]
pub struct Equation {
    /// One for each operand.
    terms: Vec<Vec<Part>>,
    /// The result, where the equation says it.
    output: Option<Vec<Part>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Letter(char),
    Ellipsis,
}

/// What axes that belong together share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// An axis of an ellipsis, counted from its last one.
    Spread(usize),
    /// A letter.
    Letter(char),
}

/// The sizes of the axes of each label.
pub type Sizes = BTreeMap<Label, Dim>;

/// The labels of every axis.
#[derive(Debug, PartialEq)]
pub struct Labels {
    /// Those of each operand.
    pub terms: Vec<Vec<Label>>,
    /// Those of the result.
    pub output: Vec<Label>,
}

impl Equation {
    /// The equation that a text says, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Equation, String> {
        let text: String = text.chars().filter(|c| *c != ' ').collect();
        let (terms, output) = match text.split_once("->") {
            Some((terms, output)) => (terms, Some(parse_term(output)?)),
            None => (text.as_str(), None),
        };
        let terms = terms.split(',').map(parse_term).collect::<Result<_, _>>()?;
        Ok(Equation { terms, output })
    }

    /// The labels of operands with as many axes as `ranks` says.
    pub fn labels(&self, ranks: &[usize]) -> Result<Labels, String> {
        if ranks.len() != self.terms.len() {
            let (terms, operands) = (self.terms.len(), ranks.len());
            return Err(format!("the equation has {terms} terms for {operands} operands"));
        }
        let mut terms = Vec::new();
        let mut spread = 0;
        for (i, (term, &rank)) in self.terms.iter().zip(ranks).enumerate() {
            let letters = term.iter().filter(|part| **part != Part::Ellipsis).count();
            let has_ellipsis = letters < term.len();
            let wide = rank.checked_sub(letters).filter(|&wide| has_ellipsis || wide == 0);
            let Some(wide) = wide else {
                return Err(format!("operand {i} has {rank} axes, but its term says {letters}"));
            };
            spread = spread.max(wide);
            terms.push(expand(term, wide));
        }
        let output = match &self.output {
            Some(output) => expand(output, spread),
            None => implicit(&terms, spread),
        };
        check(&terms, &output)?;
        Ok(Labels { terms, output })
    }
}

fn parse_term(text: &str) -> Result<Vec<Part>, String> {
    let text = text.replace("...", "…");
    let part = |c: char| match c {
        '…' => Ok(Part::Ellipsis),
        _ if c.is_ascii_alphabetic() => Ok(Part::Letter(c)),
        _ => Err(format!("`{}` has no place in an equation", c.escape_default())),
    };
    let parts: Vec<Part> = text.chars().map(part).collect::<Result<_, _>>()?;
    if parts.iter().filter(|part| **part == Part::Ellipsis).count() > 1 {
        return Err("a term has more than one ellipsis".into());
    }
    Ok(parts)
}

/// The labels of a term whose ellipsis stands for `wide` axes.
fn expand(term: &[Part], wide: usize) -> Vec<Label> {
    let labels = term.iter().flat_map(|part| match part {
        Part::Letter(c) => vec![Label::Letter(*c)],
        Part::Ellipsis => (0..wide).rev().map(Label::Spread).collect(),
    });
    labels.collect()
}

/// The result that an equation without one means: the ellipsis, and then the letters that stand
/// once, sorted.
fn implicit(terms: &[Vec<Label>], spread: usize) -> Vec<Label> {
    let mut times: BTreeMap<Label, usize> = BTreeMap::new();
    for label in terms.iter().flatten() {
        *times.entry(*label).or_default() += 1;
    }
    let once = times.into_iter().filter(|(label, n)| matches!(label, Label::Letter(_)) && *n == 1);
    (0..spread).rev().map(Label::Spread).chain(once.map(|(label, _)| label)).collect()
}

fn check(terms: &[Vec<Label>], output: &[Label]) -> Result<(), String> {
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
            Label::Spread(i) => i.to_string(),
        };
        let term = |term: &Vec<Label>| term.iter().map(name).collect::<String>();
        let terms: Vec<String> = labels.terms.iter().map(term).collect();
        Ok(format!("{}->{}", terms.join(","), term(&labels.output)))
    }

    #[test]
    fn an_equation_names_every_axis() {
        assert_eq!(labels("ij, jk -> ik", &[2, 2]), Ok("ij,jk->ik".into()));
        assert_eq!(labels("b...i,...i->b...", &[4, 2]), Ok("b10i,0i->b10".into()));
        assert_eq!(labels("...,i->...i", &[0, 1]), Ok(",i->i".into()));
    }

    #[test]
    fn without_a_result_what_stands_once_is_kept() {
        assert_eq!(labels("bA,bc", &[2, 2]), Ok("bA,bc->Ac".into()));
        assert_eq!(labels("...ii", &[4]), Ok("10ii->10".into()));
        assert_eq!(labels("i,i", &[1, 1]), Ok("i,i->".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
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
