//! Symbolic sizes. A [`Dim`] is a sum of products in normal form, so two sizes are provably equal
//! exactly when they compare equal with `==`.
//!
//! No size is longer than [`Dim::LONGEST`]: a longer one consists of named [`Part`]s. If these are
//! nested too deeply, it becomes [`Dim::is_too_long`], about which nothing is known, and so does
//! every size computed from it. Type inference checks for this: known elements that are too long
//! become unknown, and any other size that is too long is an error.

mod interval;
mod length;
mod part;
#[cfg(test)]
mod tests;
mod text;
mod visit;

pub use part::Part;

pub use text::Names;

use std::{
    collections::BTreeMap,
    ops::{Add, Mul, Sub},
    rc::Rc,
};

/// A size: a polynomial over [`Atom`]s with integer coefficients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(Rc<Sum>);

/// The products with their coefficients, and the length of all.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Sum {
    terms: BTreeMap<Vec<Atom>, i64>,
    length: usize,
}

/// The name of a free dimension or a data-dependent size; a Rust identifier.
pub type Symbol = Rc<str>;

/// Facts about a symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The name in the model.
    pub label: String,
    /// The greatest value for which memory is planned.
    pub max: Option<i64>,
}

/// A factor of a product that is not a number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A symbol.
    Symbol(Symbol),
    /// The quotient by a positive divisor, rounded down.
    FloorDiv(Dim, Dim),
    /// The maximum.
    Max(Dim, Dim),
    /// The minimum.
    Min(Dim, Dim),
    /// The size of two axes broadcast together.
    Broadcast(Dim, Dim),
    /// 1 if both are equal, else 0.
    Equal(Dim, Dim),
    /// 1 if the first is smaller, else 0.
    Less(Dim, Dim),
    /// A sum that is too long to be repeated.
    Part(Part),
    /// A size with parts that are nested too deeply.
    TooLong,
}

impl Dim {
    /// Returns the symbol called `name`.
    pub fn symbol(name: &str) -> Dim {
        Dim::atom(Atom::Symbol(name.into()))
    }

    /// Returns the number, if the size is one.
    pub fn known(&self) -> Option<i64> {
        match self.0.terms.iter().next() {
            None => Some(0),
            Some((product, &n)) if product.is_empty() && self.0.terms.len() == 1 => Some(n),
            Some(_) => None,
        }
    }

    /// Returns the symbol, if the size is a single symbol.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.0.terms.iter().next() {
            Some((product, 1)) if self.0.terms.len() == 1 => match product.as_slice() {
                [Atom::Symbol(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the atom, if the size is a single atom.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self.0.terms.iter().next() {
            Some((product, 1)) if self.0.terms.len() == 1 && product.len() == 1 => product.first(),
            _ => None,
        }
    }

    /// Returns the quotient, rounded down. The divisor must be positive: if that is unknown, the
    /// caller adds a run-time check.
    pub fn floor_div(&self, by: &Dim) -> Dim {
        debug_assert!(by.known().is_none_or(|n| n > 0), "{self:?} is divided by {by:?}");
        self.quotient(by)
    }

    /// Returns [`Dim::floor_div`], or 0 if the divisor is not positive, as [`Dim::eval`] does.
    fn quotient(&self, by: &Dim) -> Dim {
        match (self.known(), by.known()) {
            _ if self.is_too_long() || by.is_too_long() => Dim::too_long(),
            (_, Some(n)) if n <= 0 => 0.into(),
            (Some(a), Some(n)) => a.div_euclid(n).into(),
            (_, Some(1)) => self.clone(),
            (_, Some(n)) if n > 1 && self.0.terms.values().all(|c| c % n == 0) => {
                Dim::normal(self.0.terms.iter().map(|(p, c)| (p.clone(), c / n)).collect())
            }
            _ if self == by => 1.into(),
            _ => self.divide_out(by).or_else(|| self.divide_out_parts(by)).unwrap_or_else(|| {
                let common = self.common(by);
                let positive = by.is_size() && common.is_size();
                let reduced = |dim: &Dim| dim.divide_out(&common).filter(|_| positive);
                let (a, b) = reduced(self).zip(reduced(by)).unwrap_or((self.clone(), by.clone()));
                Dim::atom(Atom::FloorDiv(a, b))
            }),
        }
    }

    /// Returns the greatest common factor of all terms of both.
    fn common(&self, other: &Dim) -> Dim {
        let (product, n) = common_factor(self.terms().chain(other.terms()));
        Dim::term(&product, n)
    }

    /// Returns the exact quotient by a single product, if it is a factor of every term.
    fn divide_out(&self, by: &Dim) -> Option<Dim> {
        let (factor, &n) = by.0.terms.iter().next().filter(|_| by.0.terms.len() == 1)?;
        let mut terms = BTreeMap::new();
        for (product, &c) in &self.0.terms {
            if c.checked_rem(n) != Some(0) {
                return None;
            }
            let mut rest = product.clone();
            for atom in factor {
                rest.remove(rest.iter().position(|a| a == atom)?);
            }
            terms.insert(rest, c / n);
        }
        Some(Dim::normal(terms))
    }

    /// Returns the quotient, rounded up.
    pub fn ceil_div(&self, by: &Dim) -> Dim {
        match by.known() {
            // The sum with such a divisor may exceed 64 bits.
            Some(n) if n > i64::from(i32::MAX) => (self - 1).floor_div(by) + 1,
            _ => (self + by - 1).floor_div(by),
        }
    }

    /// Returns the remainder of [`Dim::floor_div`].
    pub fn modulo(&self, by: &Dim) -> Dim {
        self - self.floor_div(by) * by
    }

    /// Returns the maximum of both.
    pub fn at_least(&self, other: &Dim) -> Dim {
        match (self - other).known() {
            Some(difference) if difference >= 0 => self.clone(),
            Some(_) => other.clone(),
            None if (self - other).is_size() => self.clone(),
            None if (other - self).is_size() => other.clone(),
            None => {
                let (a, b) = self.ordered(other);
                Dim::atom(Atom::Max(a, b))
            }
        }
    }

    /// Returns the minimum of both.
    pub fn at_most(&self, other: &Dim) -> Dim {
        let difference = self - other;
        match difference.known() {
            Some(difference) if difference <= 0 => self.clone(),
            Some(_) => other.clone(),
            None if difference.is_size() => other.clone(),
            None if (other - self).is_size() => self.clone(),
            None => {
                let (a, b) = self.ordered(other);
                Dim::atom(Atom::Min(a, b))
            }
        }
    }

    /// Returns the size of two axes broadcast together, or `None` if they are incompatible. If that
    /// is unknown, a run-time check decides.
    pub fn broadcast(&self, other: &Dim) -> Option<Dim> {
        let (a, b) = (self.takes_in(other), other.takes_in(self));
        match (self.known(), other.known()) {
            _ if self.is_too_long() || other.is_too_long() => Some(Dim::too_long()),
            _ if a => Some(self.clone()),
            _ if b => Some(other.clone()),
            (Some(1), _) => Some(other.clone()),
            (_, Some(1)) => Some(self.clone()),
            (Some(_), Some(_)) => None,
            // A number other than 1 decides: the other is that number or 1.
            (Some(_), None) => Some(self.clone()),
            (None, Some(_)) => Some(other.clone()),
            (None, None) => Some(Dim::atom(Atom::Broadcast(self.clone(), other.clone()))),
        }
    }

    /// Returns whether this is the size of both broadcast together, if they are compatible.
    fn takes_in(&self, other: &Dim) -> bool {
        let other = &other.as_operand();
        let operand = self.as_operand();
        // min(self, n) is 1 only if self is, for n > 1.
        let is_cut = |a: &Dim, b: &Dim| *a == operand && b.known().is_some_and(|most| most > 1);
        match (self.as_atom(), other.as_atom()) {
            _ if operand == *other => true,
            (Some(Atom::Broadcast(a, b)), _) if a == other || b == other => true,
            (_, Some(Atom::Min(a, b))) => is_cut(a, b) || is_cut(b, a),
            _ => false,
        }
    }

    /// Returns 1 if both are equal, else 0.
    pub fn equal(&self, other: &Dim) -> Dim {
        let difference = self - other;
        match difference.known() {
            Some(difference) => i64::from(difference == 0).into(),
            None if (&difference - 1).is_size() || (Dim::from(-1) - &difference).is_size() => {
                0.into()
            }
            None => Dim::atom(Atom::Equal(self.clone(), other.clone())),
        }
    }

    /// Returns 1 if this is smaller, else 0.
    pub fn less(&self, other: &Dim) -> Dim {
        match (self - other).known() {
            Some(difference) => i64::from(difference < 0).into(),
            None if (self - other).is_size() => 0.into(),
            None => Dim::atom(Atom::Less(self.clone(), other.clone())),
        }
    }

    /// Returns the size, if it is a number or provably not negative: no other element that an
    /// operator selects can be written as an expression of type `usize`.
    pub fn if_sure(self) -> Option<Dim> {
        Some(self).filter(|dim| dim.known().is_some() || dim.is_size())
    }

    /// Solves `self == 0` for one atom: returns the atom and its value.
    pub fn solve_zero(&self) -> Option<(Atom, Dim)> {
        let alone = |(product, n): (&[Atom], i64)| match product {
            [atom] if matches!(n, 1 | -1) => Some((atom.clone(), n)),
            _ => None,
        };
        self.terms().filter_map(alone).find_map(|(atom, n)| {
            let rest = self - Dim::term(std::slice::from_ref(&atom), n);
            // The value must not contain the atom.
            (rest.replace(&atom, &0.into()) == rest).then(|| (atom, rest * -n))
        })
    }

    /// Iterates over the terms: a product of atoms and its coefficient.
    pub fn terms(&self) -> impl DoubleEndedIterator<Item = (&[Atom], i64)> {
        self.0.terms.iter().map(|(product, &n)| (product.as_slice(), n))
    }

    /// Makes a size of one term.
    pub fn term(product: &[Atom], n: i64) -> Dim {
        Dim::normal(BTreeMap::from([(product.to_vec(), n)]))
    }

    fn atom(atom: Atom) -> Dim {
        Dim::normal(BTreeMap::from([(vec![atom.with_short_operands()], 1)]))
    }

    /// Returns both in the canonical order of an atom, a number last.
    fn ordered(&self, other: &Dim) -> (Dim, Dim) {
        let as_they_are = match (self.known(), other.known()) {
            (_, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => self >= other,
        };
        let (a, b) = if as_they_are { (self, other) } else { (other, self) };
        (a.clone(), b.clone())
    }

    /// Returns the sum of the positive terms, and that of the negative terms without their signs.
    pub fn parts(&self) -> (Dim, Dim) {
        let of = |sign: i64| {
            let terms = self.terms().filter(|(_, n)| n.signum() == sign);
            Dim::normal(terms.map(|(p, n)| (p.to_vec(), n.saturating_mul(sign))).collect())
        };
        (of(1), of(-1))
    }

    fn number(n: i64) -> Dim {
        Dim::normal(BTreeMap::from([(Vec::new(), n)]))
    }

    fn normal(mut sum: BTreeMap<Vec<Atom>, i64>) -> Dim {
        sum.retain(|_, n| *n != 0);
        Dim::no_longer(sum)
    }

    /// Returns the sum, or `None` if a coefficient overflows. The operators saturate instead.
    pub fn checked_add(&self, other: &Dim) -> Option<Dim> {
        self.joined(other, i64::checked_add)
    }

    /// Returns the difference, or `None` if a coefficient overflows.
    pub fn checked_sub(&self, other: &Dim) -> Option<Dim> {
        self.joined(other, i64::checked_sub)
    }

    /// Returns the product, or `None` if a coefficient overflows.
    pub fn checked_mul(&self, other: &Dim) -> Option<Dim> {
        self.multiplied(other, |sum, n, m| sum.checked_add(n.checked_mul(m)?))
    }

    /// Combines the terms of both; `join` combines the coefficients of equal products.
    fn joined(&self, other: &Dim, join: impl Fn(i64, i64) -> Option<i64>) -> Option<Dim> {
        match (self.known(), other.known()) {
            (Some(n), Some(m)) => return join(n, m).map(Dim::from),
            (_, Some(0)) => return Some(self.clone()),
            _ if self.is_too_long() || other.is_too_long() => return Some(Dim::too_long()),
            _ => {}
        }
        let mut sum = self.0.terms.clone();
        for (product, &n) in &other.0.terms {
            let term = sum.entry(product.clone()).or_default();
            *term = join(*term, n)?;
        }
        Some(Dim::normal(sum))
    }

    /// Multiplies all terms; `add(sum, n, m)` returns `sum + n · m` for their coefficients.
    fn multiplied(&self, other: &Dim, add: impl Fn(i64, i64, i64) -> Option<i64>) -> Option<Dim> {
        match (self.known(), other.known()) {
            (Some(n), Some(m)) => return add(0, n, m).map(Dim::from),
            _ if self.is_too_long() || other.is_too_long() => return Some(Dim::too_long()),
            (_, Some(1)) => return Some(self.clone()),
            (Some(1), _) => return Some(other.clone()),
            _ => {}
        }
        let (a, b) = Dim::short_factors(self, other);
        let mut sum: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        for (p, &n) in &a.0.terms {
            for (q, &m) in &b.0.terms {
                let mut product = [p.as_slice(), q].concat();
                product.sort();
                let term = sum.entry(product).or_default();
                *term = add(*term, n, m)?;
            }
        }
        Some(Dim::normal(sum))
    }
}

/// Returns the greatest common factor of terms: a product and its coefficient.
fn common_factor<'t>(mut terms: impl Iterator<Item = (&'t [Atom], i64)>) -> (Vec<Atom>, i64) {
    let gcd = |a: i64, b: i64| {
        let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        i64::try_from(a).unwrap_or(1)
    };
    let Some((product, mut n)) = terms.next() else { return (Vec::new(), 1) };
    let mut common = product.to_vec();
    for (product, m) in terms {
        n = gcd(n, m);
        let mut rest = product.to_vec();
        common.retain(|atom| {
            let place = rest.iter().position(|other| other == atom);
            place.map(|place| rest.remove(place)).is_some()
        });
    }
    (common, gcd(n, 0))
}

/// The number of sizes that are made once: from 0 on, those that models have most of.
const SHARED: i64 = 257;

thread_local! {
    static NUMBERS: Vec<Dim> = (0..SHARED).map(Dim::number).collect();
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        match usize::try_from(n) {
            Ok(i) if n < SHARED => NUMBERS.with(|numbers| numbers[i].clone()),
            _ => Dim::number(n),
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Dim {
        Dim::from(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<i32> for Dim {
    fn from(n: i32) -> Dim {
        Dim::from(i64::from(n))
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Dim {
        dim.clone()
    }
}

macro_rules! operator {
    ($trait:ident $method:ident |$a:ident, $b:ident| $result:expr) => {
        impl<D: Into<Dim>> $trait<D> for &Dim {
            type Output = Dim;

            fn $method(self, other: D) -> Dim {
                let ($a, $b) = (self, &other.into());
                $result
            }
        }

        impl<D: Into<Dim>> $trait<D> for Dim {
            type Output = Dim;

            fn $method(self, other: D) -> Dim {
                $trait::$method(&self, other)
            }
        }
    };
}

/// The invariant of saturating arithmetic.
const SATURATES: &str = "saturating arithmetic does not overflow";

operator!(Add add |a, b| a.joined(b, |n, m| Some(n.saturating_add(m))).expect(SATURATES));
operator!(Sub sub |a, b| a.joined(b, |n, m| Some(n.saturating_sub(m))).expect(SATURATES));
operator!(Mul mul |a, b| {
    a.multiplied(b, |sum, n, m| Some(sum.saturating_add(n.saturating_mul(m)))).expect(SATURATES)
});

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::from(1), |a, b| a * b)
    }
}

impl<'a> std::iter::Product<&'a Dim> for Dim {
    fn product<I: Iterator<Item = &'a Dim>>(dims: I) -> Dim {
        dims.fold(Dim::from(1), |a, b| a * b)
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::from(0), |a, b| a + b)
    }
}
