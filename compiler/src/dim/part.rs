//! Named parts of long sizes. The number of terms of a product is the product of the numbers of
//! terms of its factors, so without parts a few dozen nodes of a model exhaust memory.
//!
//! A sum that makes a size too long becomes a [`Part`], which is one factor. The same sum always
//! becomes the same part, so equal sizes stay equal. Sizes with parts are directed acyclic graphs:
//! whoever visits one remembers the parts that it has seen.

use super::{Dim, Symbol, interval::Interval};
use sha2::{Digest, Sha256};
use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    fmt,
    hash::{Hash, Hasher},
    rc::Rc,
};

/// A sum of positive terms that sizes use as one factor.
#[derive(Clone)]
pub struct Part(Rc<Content>);

struct Content {
    sum: Dim,
    /// The SHA-256 of the sum. Equal parts have the same digest on every machine.
    digest: [u8; 32],
    /// The bounds of the sum, given that no symbol is negative.
    interval: Interval,
    symbols: BTreeSet<Symbol>,
    depth: usize,
}

impl Part {
    /// The greatest depth of parts in parts. Functions that visit a size recurse into its parts,
    /// each of which nests about 30 operations.
    const MAX_DEPTH: usize = 10;

    /// Makes a part of a sum, or returns `None` if its parts are too deep.
    pub fn new(sum: Dim) -> Option<Part> {
        let (mut depth, mut digest) = (1, Sha256::new());
        digest.update(format!("{sum:?}"));
        sum.each_part(&mut |part| {
            depth = depth.max(part.0.depth + 1);
            digest.update(part.0.digest);
        });
        if depth > Part::MAX_DEPTH {
            return None;
        }
        let mut symbols = BTreeSet::new();
        sum.symbols(&mut symbols);
        let (interval, digest) = (sum.natural_interval(), digest.finalize().into());
        Some(Part(Rc::new(Content { sum, digest, interval, symbols, depth })))
    }

    /// Returns the sum.
    pub fn sum(&self) -> &Dim {
        &self.0.sum
    }

    /// Returns the symbols of the sum.
    pub fn symbols(&self) -> &BTreeSet<Symbol> {
        &self.0.symbols
    }

    /// Returns the bounds of the sum, given that no symbol is negative.
    pub(super) fn interval(&self) -> Interval {
        self.0.interval
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for Part {}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Part) -> Ordering {
        self.0.digest.cmp(&other.0.digest)
    }
}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

/// Messages name a part by the first digits of its digest.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("part_")?;
        self.0.digest[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Results for the parts of a size, by their digests.
pub(super) struct PartResults<T>(RefCell<HashMap<[u8; 32], T>>);

impl<T> Default for PartResults<T> {
    fn default() -> PartResults<T> {
        PartResults(RefCell::default())
    }
}

impl<T: Clone> PartResults<T> {
    /// Returns the result for a part. The first time, `compute` returns it for the sum.
    pub fn of(&self, part: &Part, compute: impl FnOnce(&Dim) -> T) -> T {
        if let Some(found) = self.0.borrow().get(&part.0.digest) {
            return found.clone();
        }
        let result = compute(part.sum());
        self.0.borrow_mut().insert(part.0.digest, result.clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Atom, Dim};
    use std::collections::BTreeSet;

    fn symbol(i: usize) -> Dim {
        Dim::symbol(&format!("n{i}"))
    }

    /// Returns a sum of quotients that is too long for one expression.
    fn long(count: usize) -> Dim {
        (0..count).map(|i| (symbol(i) + 1).floor_div(&2.into()) * symbol(i + 1)).sum()
    }

    fn values(name: &str) -> i64 {
        name[1..].parse().expect("the name is a letter and a number")
    }

    /// The value of `long(count)` for `values`.
    fn value(count: i64) -> i64 {
        (0..count).map(|i| (i + 1) / 2 * (i + 1)).sum()
    }

    #[test]
    fn equal_sums_are_equal_parts() {
        let (a, b) = (long(200), long(200) + 0);
        assert!(a.length() < Dim::LONGEST && a == b && a != long(199));
        assert_eq!((&a - &b).known(), Some(0));
        assert_eq!((&a * 3 + 5 - &b * 2 - &b).known(), Some(5));
        assert_eq!((&a * &b).floor_div(&b), a);
        assert_eq!((&a + 1).at_least(&b), &a + 1);
        assert_eq!(a.broadcast(&b), Some(a.clone()));
        let parts = [&a, &b].map(|dim| dim.floor_div(&7.into()));
        assert_eq!(parts[0], parts[1]);
        assert_eq!(format!("{:?}", parts[0]), format!("{:?}", parts[1]));
    }

    #[test]
    fn a_part_has_the_value_of_its_sum() {
        let (a, sum) = (long(200), value(200));
        assert_eq!(a.eval(&values), sum);
        assert_eq!((&a * &a * 2 - 1).eval(&values), 2 * sum * sum - 1);
        let quotient = (&a * &a).floor_div(&(symbol(5) * &a + 1)).at_least(&symbol(3));
        assert_eq!(quotient.eval(&values), ((sum * sum) / (5 * sum + 1)).max(3));
        let settled = (0..=200).fold(quotient.clone(), |dim, i| {
            let name = format!("n{i}");
            dim.substitute(&name, &values(&name).into())
        });
        assert_eq!(settled.known(), Some(quotient.eval(&values)));
        let renamed = quotient.rename(&|name| Some(Dim::symbol(&name.replace('n', "m"))));
        assert_eq!(renamed.eval(&values), quotient.eval(&values));
        assert!(renamed != quotient && renamed.length() == quotient.length());
    }

    #[test]
    fn bounds_reach_through_parts() {
        let a = long(200);
        assert!(a.is_size() && (&a + 3).is_size() && !(&a - 3).is_size());
        assert_eq!(a.upper(&|name| Some(values(name))), Some(value(200)));
        assert_eq!((Dim::from(7) - &a).upper(&|_| None), Some(7));
        assert_eq!((&a * &a).upper(&|name| (name != "n3").then_some(1)), None);
    }

    #[test]
    fn a_program_computes_a_part_once() {
        let a = long(200);
        let square = (&a - 2).at_least(&0.into()) * &a;
        let text = square.expression(&|_| None);
        let values = text.split("let ").skip(1).filter_map(|text| text.split(['=', ';']).nth(1));
        let (count, distinct) = (values.clone().count(), values.collect::<BTreeSet<_>>().len());
        assert!(count > 1 && count == distinct, "{text}");
        let mut atoms = a.terms().flat_map(|(product, _)| product);
        let part = atoms.find_map(|atom| match atom {
            Atom::Part(part) => Some(part.sum()),
            _ => None,
        });
        let names = |dim: &Dim| (Some(dim) == part).then(|| "a".to_owned());
        assert!(square.expression(&names).contains("= a + "), "{text}");
    }

    #[test]
    fn parts_of_parts_are_visited_once() {
        let mut dim = long(200);
        for i in 0..6 {
            dim = (&dim * &dim + &dim * symbol(i) + long(100 + i)).floor_div(&(symbol(i) + 1));
        }
        assert!(!dim.is_too_long() && dim.is_size());
        assert!(dim.expression(&|_| None).len() < 60 * 64 * Dim::LONGEST);
        let mut premises = Vec::new();
        dim.premises(&mut premises);
        assert_eq!(premises, []);
        assert_eq!(dim.eval(&|_| 0), 0);
        assert_eq!(dim.substitute("n0", &symbol(1)).eval(&|_| 0), 0);
    }
}
