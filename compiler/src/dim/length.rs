//! The length limit of sizes. The number of terms of a product is the product of the numbers of
//! terms of its factors, so without a limit a few dozen nodes of a hostile model exhaust memory.

use super::{Atom, Dim, Sum};
use std::{collections::BTreeMap, rc::Rc};

impl Dim {
    /// The greatest number of symbols, numbers and operations in a size. Sizes of real models have
    /// about a dozen.
    pub const LONGEST: usize = 512;

    /// Returns the number of symbols, numbers and operations.
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Returns whether the size exceeds [`Dim::LONGEST`], so that nothing is known of it.
    pub fn is_too_long(&self) -> bool {
        self.0.length > Dim::LONGEST
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

    /// Returns the sum of these terms, or [`Dim::too_long`].
    pub(super) fn no_longer(terms: BTreeMap<Vec<Atom>, i64>) -> Dim {
        let product = |atoms: &Vec<Atom>| {
            atoms.iter().map(Atom::length).fold(0, usize::saturating_add).max(1)
        };
        let length = terms.keys().map(product).fold(0, usize::saturating_add).max(1);
        if length > Dim::LONGEST {
            return Dim::too_long();
        }
        Dim(Rc::new(Sum { terms, length }))
    }
}

impl Atom {
    fn length(&self) -> usize {
        match self {
            Atom::Symbol(_) => 1,
            Atom::FloorDiv(a, b)
            | Atom::Max(a, b)
            | Atom::Min(a, b)
            | Atom::Broadcast(a, b)
            | Atom::Equal(a, b)
            | Atom::Less(a, b) => a.length().saturating_add(b.length()).saturating_add(1),
            Atom::TooLong => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_stop_growing_at_the_limit() {
        let sum =
            |from: usize| (from..from + 10).map(|i| Dim::symbol(&format!("n{i}"))).sum::<Dim>();
        let two = sum(0) * sum(10);
        assert_eq!(two.length(), 200);
        let mut many = two.clone();
        for i in 2..1000 {
            many = &many * &sum(i * 10);
        }
        assert!(many.is_too_long());
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
