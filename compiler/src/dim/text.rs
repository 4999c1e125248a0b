//! Sizes as Rust expressions.

use super::{Atom, Dim, Part, part::PartResults};
use std::{cell::RefCell, fmt};

/// A Rust expression of type `usize`. Additions come before subtractions, so that no intermediate
/// value of a size that is not negative is negative, if its [`Dim::premises`] hold. A part is only
/// named; [`Dim::expression`] writes its value.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Text::brief().dim(self))
    }
}

impl fmt::Debug for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Text::brief().atom(self))
    }
}

impl Dim {
    /// Describes sizes that do not broadcast. Operators that compare single axes give no `axis`.
    pub fn describe_mismatch(&self, other: &Dim, axis: Option<usize>) -> String {
        let axis = axis.map_or_else(|| "an axis".to_owned(), |axis| format!("axis {axis}"));
        format!(
            "the inputs do not broadcast: {axis} has size {self:?} in one and {other:?} in \
             another; one must be 1, or both equal"
        )
    }

    /// Returns the size as a Rust expression of type `usize`, in which a subexpression for which
    /// `names` has a name is that name. Other parts are variables of a block.
    pub fn expression(&self, names: Names<'_>) -> String {
        Text::whole(names, false).whole_expression(self)
    }

    /// Returns [`Dim::expression`] in a form that can be evaluated whether or not the
    /// [`Dim::premises`] hold, and for sizes that no memory can hold: a difference is at least 0, a
    /// divisor at least 1, and a sum or product at most `usize::MAX`.
    pub fn saturating_expression(&self, names: Names<'_>) -> String {
        Text::whole(names, true).whole_expression(self)
    }

    /// Returns a Rust expression for whether the size is not zero, with `names` as in
    /// [`Dim::expression`].
    pub fn condition(&self, names: Names<'_>) -> String {
        let text = Text::whole(names, false);
        text.within_block(match self.as_atom() {
            Some(atom @ (Atom::Equal(..) | Atom::Less(..))) => text.comparison(atom),
            _ => format!("{} != 0", text.dim(self)),
        })
    }

    /// Adds to `found` the unproven assumptions of the Rust expression: sizes, each with its least
    /// value. An assumption comes before those that its own expression relies on.
    pub fn premises(&self, found: &mut Vec<(Dim, i64)>) {
        let mut inner_first = Vec::new();
        self.premises_inner_first(&PartResults::default(), &mut inner_first);
        found.extend(inner_first.into_iter().rev());
    }

    fn premises_inner_first(&self, seen: &PartResults<()>, found: &mut Vec<(Dim, i64)>) {
        let (mut operands, mut relied): (Vec<&Dim>, Vec<(&Dim, i64)>) = (Vec::new(), Vec::new());
        for atom in self.terms().flat_map(|(product, _)| product) {
            match atom {
                Atom::Symbol(_) | Atom::TooLong => {}
                Atom::FloorDiv(a, b) => {
                    relied.extend([(a, 0), (b, 1)]);
                    operands.extend([a, b]);
                }
                Atom::Min(a, b) => {
                    relied.extend([(a, 0), (b, 0)]);
                    operands.extend([a, b]);
                }
                Atom::Max(a, b) => operands.extend([a, b].into_iter().flat_map(Dim::cut_at_zero)),
                Atom::Broadcast(a, b) | Atom::Equal(a, b) | Atom::Less(a, b) => {
                    operands.extend([a, b]);
                }
                Atom::Part(part) => seen.of(part, |_| operands.push(part.sum())),
            }
        }
        operands.into_iter().rev().for_each(|dim| dim.premises_inner_first(seen, found));
        let unproven = relied.into_iter().rev().filter(|(dim, least)| !(*dim - *least).is_size());
        found.extend(unproven.map(|(dim, least)| (dim.clone(), least)));
    }

    /// Returns the parts that matter for the positive part of a size: `max(min(a, b), 0)` is the
    /// minimum of `max(a, 0)` and `max(b, 0)`.
    fn cut_at_zero(&self) -> Vec<&Dim> {
        match self.as_atom() {
            Some(Atom::Min(a, b)) => [a, b].into_iter().flat_map(Dim::cut_at_zero).collect(),
            _ => vec![self],
        }
    }
}

/// Returns the name of a variable that holds a size.
pub type Names<'a> = &'a dyn Fn(&Dim) -> Option<String>;

/// Writes sizes as Rust expressions.
struct Text<'a> {
    names: Names<'a>,
    parts: Parts,
    /// Whether sums and products stop at `usize::MAX`, differences at 0, and divisors at 1.
    saturates: bool,
}

/// How parts without a name are written.
enum Parts {
    /// By their digests.
    Digests,
    /// As variables: their names, and the statements that define them.
    Variables(PartResults<String>, RefCell<Vec<String>>),
}

impl Text<'_> {
    /// Writes sizes for messages.
    fn brief() -> Text<'static> {
        Text { names: &|_| None, parts: Parts::Digests, saturates: false }
    }

    /// Writes sizes for programs.
    fn whole(names: Names<'_>, saturates: bool) -> Text<'_> {
        let parts = Parts::Variables(PartResults::default(), RefCell::default());
        Text { names, parts, saturates }
    }

    /// Writes a size with the variables that it needs.
    fn whole_expression(&self, dim: &Dim) -> String {
        self.within_block(self.dim(dim))
    }

    /// Returns an expression with the variables that it needs.
    fn within_block(&self, expression: String) -> String {
        match &self.parts {
            Parts::Variables(_, statements) if !statements.borrow().is_empty() => {
                format!("{{ {} {expression} }}", statements.borrow().join(" "))
            }
            Parts::Variables(..) | Parts::Digests => expression,
        }
    }

    /// Writes a part.
    fn part(&self, part: &Part) -> String {
        let Parts::Variables(names, statements) = &self.parts else { return part.to_string() };
        let define = |sum: &Dim| {
            let value = self.sum(sum);
            let mut statements = statements.borrow_mut();
            // No symbol ends with `_` after a digit.
            let name = format!("part_{}_", statements.len() + 1);
            statements.push(format!("let {name} = {value};"));
            name
        };
        (self.names)(part.sum()).unwrap_or_else(|| names.of(part, define))
    }

    /// Writes a sum. The operand of an operator needs [`Text::operand`].
    fn dim(&self, dim: &Dim) -> String {
        (self.names)(dim).unwrap_or_else(|| self.sum(dim))
    }

    /// Writes a sum that has no name itself.
    fn sum(&self, dim: &Dim) -> String {
        let (plus, minus): (Vec<_>, Vec<_>) = dim.terms().rev().partition(|(_, n)| *n > 0);
        if self.saturates && !minus.is_empty() {
            return self.difference(dim);
        }
        let terms = plus.iter().map(|(product, n)| self.term(product, *n));
        let sum = match plus.as_slice() {
            [] => "0".into(),
            [(product, n), _, ..] if self.saturates => {
                let first = match (*product, n) {
                    ([quotient @ Atom::FloorDiv(..)], 1) => self.atom(quotient),
                    _ => self.term(product, *n),
                };
                terms.skip(1).fold(first, |sum, term| format!("{sum}.saturating_add({term})"))
            }
            _ => terms.collect::<Vec<_>>().join(" + "),
        };
        let minus = minus.iter().map(|(product, n)| self.term(product, *n));
        minus.fold(sum, |sum, term| format!("{sum} - {term}"))
    }

    /// Writes a term without its sign.
    fn term(&self, product: &[Atom], n: i64) -> String {
        let n = n.unsigned_abs();
        if let ([atom], 1) = (product, n) {
            return self.argument(atom);
        }
        if let ([first, others @ ..], true) = (product, self.saturates) {
            let others = others.iter().map(|atom| self.argument(atom));
            let number = (n != 1).then(|| n.to_string());
            let factors = others.chain(number);
            let times = |all, factor| format!("{all}.saturating_mul({factor})");
            return factors.fold(self.atom(first), times);
        }
        let number = (n != 1 || product.is_empty()).then(|| n.to_string());
        let factors = number.into_iter().chain(product.iter().map(|atom| self.atom(atom)));
        factors.collect::<Vec<_>>().join(" * ")
    }

    fn quotient(&self, a: &Dim, b: &Dim) -> String {
        let divisor = match b.known() {
            Some(n) => n.to_string(),
            None if self.saturates && !(b - 1).is_size() => format!("{}.max(1)", self.operand(b)),
            None => self.operand(b),
        };
        format!("{} / {divisor}", self.operand(a))
    }

    /// Writes an atom as a term of a sum, or as the argument of a method.
    fn argument(&self, atom: &Atom) -> String {
        let Atom::FloorDiv(a, b) = atom else { return self.atom(atom) };
        (self.names)(&Dim::atom(atom.clone())).unwrap_or_else(|| self.quotient(a, b))
    }

    /// Writes an atom as a factor of a product.
    fn atom(&self, atom: &Atom) -> String {
        if let Some(name) = (self.names)(&Dim::atom(atom.clone())) {
            return name;
        }
        match atom {
            Atom::Symbol(name) => name.to_string(),
            Atom::FloorDiv(a, b) => format!("({})", self.quotient(a, b)),
            Atom::Max(a, b) if b.known() == Some(0) => self.positive(a),
            Atom::Max(a, b) if b.is_size() => format!("{}.max({})", self.positive(a), self.dim(b)),
            Atom::Max(a, b) => format!("{}.max({})", self.positive(a), self.positive(b)),
            Atom::Min(a, b) if b.is_size() => format!("{}.min({})", self.positive(a), self.dim(b)),
            Atom::Min(a, b) => format!("{}.min({})", self.positive(a), self.positive(b)),
            Atom::Broadcast(a, b) => format!("broadcast({}, {})", self.dim(a), self.dim(b)),
            Atom::Equal(..) | Atom::Less(..) => {
                format!("usize::from({})", self.comparison(atom))
            }
            Atom::Part(part) => self.part(part),
            Atom::TooLong => "…".into(),
        }
    }

    /// Writes the positive part of a size as the operand of an operator or method.
    fn positive(&self, dim: &Dim) -> String {
        if dim.is_size() {
            return self.operand(dim);
        }
        self.difference(dim)
    }

    /// Writes a sum that may be negative, or 0 if it is.
    fn difference(&self, dim: &Dim) -> String {
        let (plus, minus) = dim.parts();
        match minus.known() {
            Some(0) => self.operand(&plus),
            _ => format!("{}.saturating_sub({})", self.operand(&plus), self.dim(&minus)),
        }
    }

    /// Writes the comparison of two sizes.
    fn comparison(&self, atom: &Atom) -> String {
        let (a, sign, b) = match atom {
            Atom::Equal(a, b) => (a, "==", b),
            Atom::Less(a, b) => (a, "<", b),
            other => return format!("{} != 0", self.atom(other)),
        };
        let (a, b) = (a - b).parts();
        format!("{} {sign} {}", self.dim(&a), self.dim(&b))
    }

    /// Writes a size as the operand of an operator or method: one word, or in parentheses.
    fn operand(&self, dim: &Dim) -> String {
        if let Some(name) = (self.names)(dim) {
            return name;
        }
        match (dim.known(), dim.as_atom()) {
            // A method call on a literal needs its type.
            (Some(n), _) => format!("{n}usize"),
            (None, Some(atom)) => self.atom(atom),
            // A method call.
            (None, None) if self.saturates => self.sum(dim),
            (None, None) => format!("({})", self.dim(dim)),
        }
    }
}
