//! Sizes as Rust expressions.

use super::{Atom, Dim};
use std::fmt;

/// As a Rust expression of type `usize`, which is also how the dump writes it. What is added
/// stands before what is taken away, so that a size that is not negative never dips below zero, as
/// long as its [`Dim::premises`] hold.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plus, minus): (Vec<_>, Vec<_>) = self.terms().rev().partition(|(_, n)| *n > 0);
        if plus.is_empty() {
            write!(f, "0")?;
        }
        for (i, (product, n)) in plus.into_iter().enumerate() {
            f.write_str(if i == 0 { "" } else { " + " })?;
            write_term(f, product, n)?;
        }
        for (product, n) in minus {
            f.write_str(" - ")?;
            write_term(f, product, n)?;
        }
        Ok(())
    }
}

/// Writes a term without its sign.
fn write_term(f: &mut fmt::Formatter<'_>, product: &[Atom], n: i64) -> fmt::Result {
    let mut separator = "";
    let n = n.unsigned_abs();
    if n != 1 || product.is_empty() {
        write!(f, "{n}")?;
        separator = " * ";
    }
    for atom in product {
        write!(f, "{separator}{atom:?}")?;
        separator = " * ";
    }
    Ok(())
}

impl fmt::Debug for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(name) => f.write_str(name),
            Atom::FloorDiv(a, b) => match b.known() {
                Some(n) => write!(f, "({} / {n})", Factor(a)),
                None => write!(f, "({} / {})", Factor(a), Factor(b)),
            },
            Atom::Max(a, b) if b.known() == Some(0) => write!(f, "{}", Positive(a)),
            Atom::Max(a, b) if b.is_size() => write!(f, "{}.max({b:?})", Positive(a)),
            Atom::Max(a, b) => write!(f, "{}.max({})", Positive(a), Positive(b)),
            Atom::Min(a, b) if b.is_size() => write!(f, "{}.min({b:?})", Positive(a)),
            Atom::Min(a, b) => write!(f, "{}.min({})", Positive(a), Positive(b)),
            Atom::Broadcast(a, b) => write!(f, "broadcast({a:?}, {b:?})"),
            Atom::Equal(..) | Atom::Less(..) => write!(f, "usize::from({})", Truth(self)),
            Atom::TooLong => f.write_str("…"),
        }
    }
}

impl Dim {
    /// Adds to `found` what the Rust expression relies on and is not sure: sizes, and the least
    /// that each must be.
    pub fn premises(&self, found: &mut Vec<(Dim, i64)>) {
        let mut rely = |dim: &Dim, least: i64| {
            if !(dim - least).is_size() {
                found.push((dim.clone(), least));
            }
        };
        let mut parts: Vec<&Dim> = Vec::new();
        for atom in self.terms().flat_map(|(product, _)| product) {
            match atom {
                Atom::Symbol(_) | Atom::TooLong => {}
                Atom::FloorDiv(a, b) => {
                    rely(a, 0);
                    rely(b, 1);
                    parts.extend([a, b]);
                }
                Atom::Min(a, b) => {
                    rely(a, 0);
                    rely(b, 0);
                    parts.extend([a, b]);
                }
                Atom::Max(a, b) => parts.extend([a, b].into_iter().flat_map(Dim::cut_at_zero)),
                Atom::Broadcast(a, b) | Atom::Equal(a, b) | Atom::Less(a, b) => {
                    parts.extend([a, b]);
                }
            }
        }
        parts.into_iter().for_each(|part| part.premises(found));
    }

    /// What it is made of where it counts only as far as it is positive: the smaller of two sizes
    /// is cut at zero as they are.
    fn cut_at_zero(&self) -> Vec<&Dim> {
        match self.as_atom() {
            Some(Atom::Min(a, b)) => [a, b].into_iter().flat_map(Dim::cut_at_zero).collect(),
            _ => vec![self],
        }
    }

    /// Whether it is not zero, as a Rust expression.
    pub fn condition(&self) -> String {
        match self.as_atom() {
            Some(atom @ (Atom::Equal(..) | Atom::Less(..))) => Truth(atom).to_string(),
            _ => format!("{self:?} != 0"),
        }
    }
}

/// A size in parentheses, or 0 where it would be less.
struct Positive<'a>(&'a Dim);

impl fmt::Display for Positive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_size() {
            return write!(f, "{}", Factor(self.0));
        }
        let (plus, minus) = self.0.parts();
        match minus.known() {
            Some(0) => write!(f, "{}", Factor(&plus)),
            _ => write!(f, "{}.saturating_sub({minus:?})", Factor(&plus)),
        }
    }
}

/// A comparison as a Rust expression.
struct Truth<'a>(&'a Atom);

impl fmt::Display for Truth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, sign, b) = match self.0 {
            Atom::Equal(a, b) => (a, "==", b),
            Atom::Less(a, b) => (a, "<", b),
            other => return write!(f, "{other:?} != 0"),
        };
        let (a, b) = (a - b).parts();
        write!(f, "{a:?} {sign} {b:?}")
    }
}

/// A size in parentheses, where it is not a single word.
struct Factor<'a>(&'a Dim);

impl fmt::Display for Factor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.known() {
            // A method on a bare number would not say which type of number it is.
            Some(n) => write!(f, "{n}usize"),
            None if self.0.as_atom().is_some() => write!(f, "{:?}", self.0),
            None => write!(f, "({:?})", self.0),
        }
    }
}
