//! Evaluates sizes, and replaces their symbols.

use super::{Atom, Dim, Part, Symbol, part::PartResults};
use std::collections::BTreeSet;

impl Dim {
    /// Evaluates the size, given the value of each symbol. Saturates on overflow.
    pub fn eval(&self, symbols: &dyn Fn(&str) -> i64) -> i64 {
        self.eval_with(symbols, &PartResults::default())
    }

    fn eval_with(&self, symbols: &dyn Fn(&str) -> i64, parts: &PartResults<i64>) -> i64 {
        let of = |dim: &Dim| dim.eval_with(symbols, parts);
        let atom = |atom: &Atom| match atom {
            Atom::Symbol(name) => symbols(name),
            Atom::FloorDiv(a, b) => match of(b) {
                n if n > 0 => of(a).div_euclid(n),
                _ => 0,
            },
            Atom::Max(a, b) => of(a).max(of(b)),
            Atom::Min(a, b) => of(a).min(of(b)),
            Atom::Broadcast(a, b) => match (of(a), of(b)) {
                (1, b) => b,
                (a, _) => a,
            },
            Atom::Equal(a, b) => i64::from(of(a) == of(b)),
            Atom::Less(a, b) => i64::from(of(a) < of(b)),
            Atom::Part(part) => parts.of(part, of),
            Atom::TooLong => 0,
        };
        let term = |(product, n): (&Vec<Atom>, &i64)| {
            product.iter().fold(*n, |value, a| value.saturating_mul(atom(a)))
        };
        self.0.terms.iter().map(term).fold(0, i64::saturating_add)
    }

    /// Replaces the symbol called `name` by `by`.
    pub fn substitute(&self, name: &str, by: &Dim) -> Dim {
        self.replace(&Atom::Symbol(name.into()), by)
    }

    /// Replaces `atom` by `by`.
    pub fn replace(&self, atom: &Atom, by: &Dim) -> Dim {
        self.rebuilt(&|found| (found == atom).then(|| by.clone()))
    }

    /// Replaces, simultaneously, each symbol for which `by` returns a size.
    pub fn rename(&self, by: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
        self.rebuilt(&|found| match found {
            Atom::Symbol(name) => by(name),
            _ => None,
        })
    }

    /// Replaces each atom for which `by` returns a size.
    fn rebuilt(&self, by: &dyn Fn(&Atom) -> Option<Dim>) -> Dim {
        self.rebuilt_with(by, &PartResults::default())
    }

    fn rebuilt_with(&self, by: &dyn Fn(&Atom) -> Option<Dim>, parts: &PartResults<Dim>) -> Dim {
        let each = |dim: &Dim| dim.rebuilt_with(by, parts);
        let replaced = |found: &Atom| {
            by(found).unwrap_or_else(|| match found {
                Atom::Symbol(_) | Atom::TooLong => Dim::atom(found.clone()),
                // The divisor may become 0 if a run-time check is certain to fail.
                Atom::FloorDiv(a, b) => each(a).quotient(&each(b)),
                Atom::Max(a, b) => each(a).at_least(&each(b)),
                Atom::Min(a, b) => each(a).at_most(&each(b)),
                Atom::Broadcast(a, b) => {
                    let (a, b) = (each(a), each(b));
                    a.broadcast(&b).unwrap_or_else(|| Dim::atom(Atom::Broadcast(a, b)))
                }
                Atom::Equal(a, b) => each(a).equal(&each(b)),
                Atom::Less(a, b) => each(a).less(&each(b)),
                Atom::Part(part) => parts.of(part, |sum| each(sum).as_operand()),
            })
        };
        let term = |(product, &n): (&Vec<Atom>, &i64)| {
            product.iter().map(replaced).fold(Dim::from(n), |value, factor| value * factor)
        };
        self.0.terms.iter().map(term).fold(Dim::from(0), |sum, term| sum + term)
    }

    /// Adds every symbol of the size to `found`.
    pub fn symbols(&self, found: &mut BTreeSet<Symbol>) {
        for atom in self.0.terms.keys().flatten() {
            match atom {
                Atom::Symbol(name) => {
                    found.insert(name.clone());
                }
                Atom::FloorDiv(a, b)
                | Atom::Max(a, b)
                | Atom::Min(a, b)
                | Atom::Broadcast(a, b)
                | Atom::Equal(a, b)
                | Atom::Less(a, b) => {
                    a.symbols(found);
                    b.symbols(found);
                }
                Atom::Part(part) => found.extend(part.symbols().iter().cloned()),
                Atom::TooLong => {}
            }
        }
    }

    /// Calls `see` with each part of the size, without the parts of parts.
    pub(super) fn each_part(&self, see: &mut dyn FnMut(&Part)) {
        for atom in self.0.terms.keys().flatten() {
            match atom {
                Atom::FloorDiv(a, b)
                | Atom::Max(a, b)
                | Atom::Min(a, b)
                | Atom::Broadcast(a, b)
                | Atom::Equal(a, b)
                | Atom::Less(a, b) => [a, b].into_iter().for_each(|dim| dim.each_part(see)),
                Atom::Part(part) => see(part),
                Atom::Symbol(_) | Atom::TooLong => {}
            }
        }
    }
}
