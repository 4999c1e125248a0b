//! Finds weights that are equal.

use super::{Weight, weight::Likeness};
use std::collections::HashMap;

/// Entries by weight. Weights whose first bytes differ are told apart by these bytes alone, so the
/// elements of most models are not read.
pub struct WeightTable<T>(HashMap<Likeness, Bucket<T>>);

/// The entries of weights with the same first bytes.
struct Bucket<T> {
    /// The first entries, which are compared one by one.
    few: Vec<(Weight, T)>,
    /// All other entries, by the checksum of the constants.
    many: HashMap<u64, Vec<(Weight, T)>>,
}

impl<T> WeightTable<T> {
    /// The number of entries that are compared one by one.
    const FEW: usize = 4;

    /// Returns the first entry of an equal weight that `accept` accepts.
    pub fn find(&self, weight: &Weight, accept: impl Fn(&T) -> bool) -> Option<&T> {
        let bucket = self.0.get(&weight.likeness())?;
        let hashed = || bucket.many.get(&weight.checksum());
        let rest = if bucket.many.is_empty() { None } else { hashed() };
        let mut alike = bucket.few.iter().chain(rest.into_iter().flatten());
        let found = alike.find(|(other, entry)| accept(entry) && other == weight);
        found.map(|(_, entry)| entry)
    }

    /// Adds an entry of a weight.
    pub fn insert(&mut self, weight: Weight, entry: T) {
        let bucket = self.0.entry(weight.likeness()).or_default();
        if bucket.few.len() < WeightTable::<T>::FEW {
            bucket.few.push((weight, entry));
        } else {
            bucket.many.entry(weight.checksum()).or_default().push((weight, entry));
        }
    }
}

impl<T> Default for WeightTable<T> {
    fn default() -> Self {
        WeightTable(HashMap::new())
    }
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Bucket { few: Vec::new(), many: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    /// A weight whose first bytes are the same for every `i`.
    fn weight(i: i64) -> Weight {
        let numbers: Vec<i64> = (0..9).map(|at| if at < 8 { 1 } else { i }).collect();
        Tensor::from_ints(&numbers).into()
    }

    #[test]
    fn equal_weights_are_found_among_many_with_the_same_first_bytes() {
        let mut table = WeightTable::default();
        for i in 0..100 {
            assert_eq!(table.find(&weight(i), |_| true), None);
            table.insert(weight(i), i);
        }
        table.insert(weight(50), 200);
        for i in 0..100 {
            assert_eq!(table.find(&weight(i), |_| true), Some(&i));
        }
        assert_eq!(table.find(&weight(50), |&entry| entry > 100), Some(&200));
        assert_eq!(table.find(&weight(50), |&entry| entry > 200), None);
    }
}
