//! Interval arithmetic over sizes.

use super::{Atom, Dim, Sum};
use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

/// The least and the greatest value of a size; `None` is unbounded.
pub(super) type Interval = (Option<i64>, Option<i64>);

impl Dim {
    /// Returns the greatest value of the size, given the greatest values of symbols.
    pub fn upper(&self, bounds: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let symbols = &|name: &str| (Some(0), bounds(name));
        Intervals { symbols, is_natural: false, found: HashMap::new() }.sum(self).1
    }

    /// Returns the greatest value of the size if each of its symbols has a greatest value. Unlike
    /// in [`Dim::upper`], the minimum of a number and an unbounded symbol has none.
    pub fn bound(&self, bounds: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut symbols = BTreeSet::new();
        self.symbols(&mut symbols);
        symbols.iter().all(|symbol| bounds(symbol).is_some()).then(|| self.upper(bounds))?
    }

    /// Returns whether the size is provably not negative, given that no symbol is.
    pub fn is_size(&self) -> bool {
        self.natural_interval().0.is_some_and(|least| least >= 0)
    }

    /// Returns the bounds of the size, given that no symbol is negative.
    pub(super) fn natural_interval(&self) -> Interval {
        let symbols = &|_: &str| (Some(0), None);
        Intervals { symbols, is_natural: true, found: HashMap::new() }.sum(self)
    }
}

/// The intervals of the parts of a size. Sizes share parts, so each is computed once.
struct Intervals<'a> {
    symbols: &'a dyn Fn(&str) -> Interval,
    /// Whether it is only known of the symbols that they are not negative.
    is_natural: bool,
    found: HashMap<*const Sum, Interval>,
}

impl Intervals<'_> {
    fn sum(&mut self, dim: &Dim) -> Interval {
        let mut sum: Interval = (Some(0), Some(0));
        for (product, n) in dim.terms() {
            let mut term: Interval = (Some(n), Some(n));
            for atom in product {
                term = multiply(term, self.atom(atom));
            }
            if let Some(most) = self.divided(product, n) {
                term.1 = Some(term.1.map_or(most, |other| other.min(most)));
            }
            let add = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
            sum = (add(sum.0, term.0), add(sum.1, term.1));
        }
        sum
    }

    /// Returns the interval of a part. The size keeps the part alive, so its address identifies it.
    fn part(&mut self, dim: &Dim) -> Interval {
        let place = Rc::as_ptr(&dim.0);
        if let Some(&found) = self.found.get(&place) {
            return found;
        }
        let interval = self.sum(dim);
        self.found.insert(place, interval);
        interval
    }

    fn atom(&mut self, atom: &Atom) -> Interval {
        let (a, b) = match atom {
            Atom::Symbol(name) => return (self.symbols)(name),
            Atom::TooLong => return (None, None),
            Atom::Equal(..) | Atom::Less(..) => return (Some(0), Some(1)),
            Atom::FloorDiv(a, b) => return self.quotient(a, b),
            Atom::Part(part) if self.is_natural => return part.interval(),
            Atom::Part(part) => return self.part(part.sum()),
            Atom::Max(a, b) | Atom::Min(a, b) | Atom::Broadcast(a, b) => (a, b),
        };
        let (a, b) = (self.part(a), self.part(b));
        let least = a.0.zip(b.0).map(|(a, b)| a.min(b));
        let most = a.1.zip(b.1).map(|(a, b)| a.max(b));
        match atom {
            Atom::Max(..) => (a.0.into_iter().chain(b.0).max(), most),
            Atom::Min(..) => (least, a.1.into_iter().chain(b.1).min()),
            _ => (least, most),
        }
    }

    /// Returns the interval of a quotient. Every divisor is positive.
    fn quotient(&mut self, a: &Dim, b: &Dim) -> Interval {
        match (self.part(a), b.known()) {
            ((least, most), Some(n)) if n > 0 => {
                (least.map(|x| x.div_euclid(n)), most.map(|x| x.div_euclid(n)))
            }
            ((Some(least), most), _) if least >= 0 => (Some(0), most),
            _ => (None, None),
        }
    }

    /// Returns an upper bound of a product that divides and multiplies by the same factor:
    /// `⌊a / b⌋ · b ≤ a`.
    fn divided(&mut self, product: &[Atom], n: i64) -> Option<i64> {
        let quotient = product.iter().position(|atom| matches!(atom, Atom::FloorDiv(..)))?;
        let Atom::FloorDiv(a, b) = &product[quotient] else { return None };
        let (factor, m) = b.terms().next().filter(|&(_, m)| m > 0 && b.terms().count() == 1)?;
        let (least, most) = self.part(a);
        if n < 0 || least? < 0 {
            return None;
        }
        let mut rest = product.to_vec();
        rest.remove(quotient);
        for atom in factor {
            rest.remove(rest.iter().position(|other| other == atom)?);
        }
        // ⌊a / (m · f)⌋ · f ≤ ⌊a / m⌋, whatever the other factors are.
        let most = most?.div_euclid(m).checked_mul(n)?;
        match self.divided(&rest, most) {
            Some(most) => Some(most),
            None => rest.iter().try_fold(most, |most, atom| {
                let (least, factor) = self.atom(atom);
                least.filter(|&least| least >= 0).and(most.checked_mul(factor?))
            }),
        }
    }
}

/// Returns the product of two intervals. It is bounded if both are, or if their signs are known.
fn multiply(a: Interval, b: Interval) -> Interval {
    if let ((Some(a0), Some(a1)), (Some(b0), Some(b1))) = (a, b) {
        let all = [(a0, b0), (a0, b1), (a1, b0), (a1, b1)].map(|(x, y)| x.saturating_mul(y));
        return (all.into_iter().min(), all.into_iter().max());
    }
    let times = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(0), _) | (_, Some(0)) => Some(0),
        (a, b) => Some(a?.saturating_mul(b?)),
    };
    let positive = |x: Interval| x.0.is_some_and(|least| least >= 0);
    let negative = |x: Interval| x.1.is_some_and(|most| most <= 0);
    match (positive(a), positive(b)) {
        (true, true) => (times(a.0, b.0), times(a.1, b.1)),
        (true, false) if negative(b) => (times(a.1, b.0), times(a.0, b.1)),
        (false, true) if negative(a) => (times(a.0, b.1), times(a.1, b.0)),
        _ => (None, None),
    }
}
