//! The length limit of sizes, and the parts of longer ones.

use super::{Atom, Dim, Part, Sum, common_factor};
use std::{collections::BTreeMap, rc::Rc};

impl Dim {
    /// The greatest number of symbols, numbers and operations in a size. Sizes of real models have
    /// about a dozen.
    pub const LONGEST: usize = 512;

    /// The greatest length of each operand of a quotient, maximum or another operation.
    const LONGEST_OPERAND: usize = 64;

    /// The greatest length of a product before equal terms are joined.
    const LONGEST_PRODUCT: usize = 4 * Dim::LONGEST;

    /// The greatest length of a factor that all terms of a part share, and that stays outside.
    const LONGEST_FACTOR: usize = 8;

    /// Returns the number of symbols, numbers and operations. A part counts as one symbol.
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Returns whether the parts of the size are nested so deeply that nothing is known of it.
    pub fn is_too_long(&self) -> bool {
        self.0.length == usize::MAX
    }

    /// Returns whether the sizes together exceed [`Dim::LONGEST`].
    pub fn are_too_long<'d>(dims: impl IntoIterator<Item = &'d Dim>) -> bool {
        dims.into_iter().map(Dim::length).fold(0, usize::saturating_add) > Dim::LONGEST
    }

    /// Returns the size that stands for all that are too long.
    pub(super) fn too_long() -> Dim {
        let terms = BTreeMap::from([(vec![Atom::TooLong], 1)]);
        Dim(Rc::new(Sum { terms, length: usize::MAX }))
    }

    /// Returns the sum of these terms, in parts if it is too long.
    pub(super) fn no_longer(terms: BTreeMap<Vec<Atom>, i64>) -> Dim {
        let sum = Dim::of_any_length(terms);
        if sum.is_too_long() {
            return Dim::too_long();
        }
        if sum.length() > Dim::LONGEST { sum.as_operand() } else { sum }
    }

    fn of_any_length(terms: BTreeMap<Vec<Atom>, i64>) -> Dim {
        let product = |atoms: &Vec<Atom>| {
            atoms.iter().map(Atom::length).fold(0, usize::saturating_add).max(1)
        };
        let length = terms.keys().map(product).fold(0, usize::saturating_add).max(1);
        Dim(Rc::new(Sum { terms, length }))
    }

    /// Returns the size as a short operand of an operation.
    pub fn as_operand(&self) -> Dim {
        self.in_parts(Dim::LONGEST_OPERAND)
    }

    /// Returns the size as the difference of two parts, plus a number. A side of at most `longest`
    /// symbols, numbers and operations stays a sum.
    pub(super) fn in_parts(&self, longest: usize) -> Dim {
        if self.length() <= longest || self.is_too_long() {
            return self.clone();
        }
        let (mut plus, mut minus, mut terms) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (product, &n) in &self.0.terms {
            match n {
                _ if product.is_empty() => drop(terms.insert(Vec::new(), n)),
                n if n > 0 => drop(plus.insert(product.clone(), n)),
                n => drop(minus.insert(product.clone(), n.saturating_neg())),
            }
        }
        for (side, sign) in [(plus, 1), (minus, -1)] {
            let side = Dim::of_any_length(side);
            let Some(side) = side.into_part(longest) else { return Dim::too_long() };
            terms.extend(side.terms().map(|(product, n)| (product.to_vec(), n * sign)));
        }
        Dim::of_any_length(terms)
    }

    /// Returns a sum of positive terms as a part, times a factor that all terms share, or the sum
    /// itself if it is not longer than `longest`. Returns `None` if its parts are too deep.
    fn into_part(self, longest: usize) -> Option<Dim> {
        if self.length() <= longest {
            return Some(self);
        }
        let (mut shared, n) = common_factor(self.terms());
        let length = shared.iter().map(Atom::length).fold(0, usize::saturating_add);
        if self.0.terms.len() == 1 || length > Dim::LONGEST_FACTOR {
            shared.clear();
        }
        let rest = self.terms().map(|(product, m)| (without(product, &shared), m / n));
        shared.push(Atom::Part(Part::new(Dim::of_any_length(rest.collect()))?));
        shared.sort();
        Some(Dim::of_any_length(BTreeMap::from([(shared, n)])))
    }

    /// Returns the exact quotient by a sum, if it is a part of every term.
    pub(super) fn divide_out_parts(&self, by: &Dim) -> Option<Dim> {
        let has_part = |product: &Vec<Atom>| product.iter().any(|a| matches!(a, Atom::Part(_)));
        let has_parts = !self.0.terms.is_empty() && self.0.terms.keys().all(has_part);
        let quotient = has_parts.then(|| self.divide_out(&by.in_parts(1)))??;
        Some(match quotient.as_atom() {
            Some(Atom::Part(part)) if part.sum().length() <= Dim::LONGEST => part.sum().clone(),
            _ => quotient,
        })
    }

    /// Returns two factors. Their sums become parts if the product would be too long.
    pub(super) fn short_factors(a: &Dim, b: &Dim) -> (Dim, Dim) {
        let is_short = |a: &Dim, b: &Dim| {
            let count = |dim: &Dim| dim.0.terms.len();
            let length = |a: &Dim, b: &Dim| count(a).saturating_mul(b.length());
            length(a, b).saturating_add(length(b, a)) <= Dim::LONGEST_PRODUCT
        };
        if is_short(a, b) {
            return (a.clone(), b.clone());
        }
        let (long, short) = if (a.length(), a) >= (b.length(), b) { (a, b) } else { (b, a) };
        let long = long.in_parts(1);
        if is_short(&long, short) { (long, short.clone()) } else { (long, short.in_parts(1)) }
    }
}

/// Returns a product without the factors of another, all of which it has.
fn without(product: &[Atom], factors: &[Atom]) -> Vec<Atom> {
    let mut rest = product.to_vec();
    for factor in factors {
        if let Some(place) = rest.iter().position(|atom| atom == factor) {
            rest.remove(place);
        }
    }
    rest
}

impl Atom {
    fn length(&self) -> usize {
        match self {
            Atom::Symbol(_) | Atom::Part(_) => 1,
            Atom::FloorDiv(a, b)
            | Atom::Max(a, b)
            | Atom::Min(a, b)
            | Atom::Broadcast(a, b)
            | Atom::Equal(a, b)
            | Atom::Less(a, b) => a.length().saturating_add(b.length()).saturating_add(1),
            Atom::TooLong => usize::MAX,
        }
    }

    /// Returns the atom with parts in place of long operands.
    pub(super) fn with_short_operands(self) -> Atom {
        match self {
            Atom::FloorDiv(a, b) => Atom::FloorDiv(a.as_operand(), b.as_operand()),
            Atom::Max(a, b) => Atom::Max(a.as_operand(), b.as_operand()),
            Atom::Min(a, b) => Atom::Min(a.as_operand(), b.as_operand()),
            Atom::Broadcast(a, b) => Atom::Broadcast(a.as_operand(), b.as_operand()),
            Atom::Equal(a, b) => Atom::Equal(a.as_operand(), b.as_operand()),
            Atom::Less(a, b) => Atom::Less(a.as_operand(), b.as_operand()),
            Atom::Symbol(_) | Atom::Part(_) | Atom::TooLong => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_short() {
        let sum =
            |from: usize| (from..from + 10).map(|i| Dim::symbol(&format!("n{i}"))).sum::<Dim>();
        let two = sum(0) * sum(10);
        assert_eq!(two.length(), 200);
        let product = |count: usize| {
            (2..count).map(|i| sum(i * 10)).fold(two.clone(), |product, sum| product * sum)
        };
        let many = product(40);
        assert!(many.length() <= Dim::LONGEST && many == product(40) && many != product(41));
        assert_eq!(many.eval(&|_| 0), 0);
        let one_each = |name: &str| i64::from(name.ends_with('7'));
        assert_eq!(many.eval(&one_each), 1);
        assert_eq!(many.upper(&|name| Some(one_each(name))), Some(1));
        assert!(product(1000).is_too_long());
        assert!(Dim::are_too_long([&two; 3]) && !Dim::are_too_long([&two; 2]));
    }

    #[test]
    fn operations_on_a_size_that_is_too_long_are_too_long() {
        let (n, long) = (Dim::symbol("n"), Dim::too_long());
        let made = [
            &long - &long,
            &long * 2,
            &n + &long,
            long.floor_div(&long),
            n.floor_div(&long),
            long.modulo(&n),
            long.at_least(&n),
            n.at_most(&long),
            long.equal(&long),
            n.less(&long),
            long.broadcast(&long).expect("the sizes are unknown"),
            n.substitute("n", &long),
        ];
        assert!(made.iter().all(Dim::is_too_long), "{made:?}");
        assert!(!long.is_size() && long.known().is_none() && long.upper(&|_| Some(1)).is_none());
    }

    #[test]
    fn a_long_chain_of_quotients_is_bounded_in_linear_time() {
        let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
        let (mut halved, mut rounded) = (n.clone(), n);
        for _ in 0..80 {
            halved = (&halved + 1).floor_div(&2.into()).at_least(&m);
            rounded = rounded.floor_div(&m) * &m + 1;
        }
        for dim in [halved, rounded] {
            assert!(dim.is_size() && !dim.is_too_long());
            assert!(format!("{dim:?}").len() < 10 * Dim::LONGEST);
        }
    }
}
