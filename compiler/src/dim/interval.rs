//! How small and how large a size can be.

use super::{Atom, Dim};

/// The least and the greatest that a size can be; `None` is without bound.
type Interval = (Option<i64>, Option<i64>);

impl Dim {
    /// The greatest that this can be, given the bound of each symbol that has one.
    pub fn upper(&self, bounds: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.interval(&|name| (Some(0), bounds(name))).1
    }

    pub(super) fn interval(&self, symbols: &dyn Fn(&str) -> Interval) -> Interval {
        let mut sum: Interval = (Some(0), Some(0));
        for (product, &n) in &*self.0 {
            let mut term: Interval = (Some(n), Some(n));
            for atom in product {
                term = multiply(term, atom.interval(symbols));
            }
            if let Some(most) = divided(product, n, symbols) {
                term.1 = Some(term.1.map_or(most, |other| other.min(most)));
            }
            let add = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
            sum = (add(sum.0, term.0), add(sum.1, term.1));
        }
        sum
    }
}

impl Atom {
    pub(super) fn interval(&self, symbols: &dyn Fn(&str) -> Interval) -> Interval {
        let both = |a: &Dim, b: &Dim| (a.interval(symbols), b.interval(symbols));
        match self {
            Atom::Symbol(name) => symbols(name),
            Atom::FloorDiv(a, b) => match (a.interval(symbols), b.known()) {
                ((least, most), Some(n)) if n > 0 => {
                    (least.map(|x| x.div_euclid(n)), most.map(|x| x.div_euclid(n)))
                }
                ((Some(least), most), _) if least >= 0 => (Some(0), most),
                _ => (None, None),
            },
            Atom::Max(a, b) => {
                let (a, b) = both(a, b);
                let least = a.0.into_iter().chain(b.0).max();
                (least, a.1.zip(b.1).map(|(a, b)| a.max(b)))
            }
            Atom::Min(a, b) => {
                let (a, b) = both(a, b);
                let most = a.1.into_iter().chain(b.1).min();
                (a.0.zip(b.0).map(|(a, b)| a.min(b)), most)
            }
            Atom::Broadcast(a, b) => {
                let (a, b) = both(a, b);
                (a.0.zip(b.0).map(|(a, b)| a.min(b)), a.1.zip(b.1).map(|(a, b)| a.max(b)))
            }
            Atom::Equal(..) | Atom::Less(..) => (Some(0), Some(1)),
        }
    }
}

/// The greatest that a product can be by what it divides and multiplies again: `⌊a / b⌋ · b ≤ a`.
fn divided(product: &[Atom], n: i64, symbols: &dyn Fn(&str) -> Interval) -> Option<i64> {
    let quotient = product.iter().position(|atom| matches!(atom, Atom::FloorDiv(..)))?;
    let Atom::FloorDiv(a, b) = &product[quotient] else { return None };
    let (factor, m) = b.terms().next().filter(|&(_, m)| m > 0 && b.terms().count() == 1)?;
    let (least, most) = a.interval(symbols);
    if n < 0 || least? < 0 {
        return None;
    }
    let mut rest = product.to_vec();
    rest.remove(quotient);
    for atom in factor {
        rest.remove(rest.iter().position(|other| other == atom)?);
    }
    // ⌊a / (m · f)⌋ · f ≤ ⌊a / m⌋, whatever else there is to be multiplied.
    let most = most?.div_euclid(m).checked_mul(n)?;
    match divided(&rest, most, symbols) {
        Some(most) => Some(most),
        None => rest.iter().try_fold(most, |most, atom| {
            let (least, factor) = atom.interval(symbols);
            least.filter(|&least| least >= 0).and(most.checked_mul(factor?))
        }),
    }
}

/// The product of two intervals, of which the bounds are known where the signs are.
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
