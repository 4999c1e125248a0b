//! The ONNX type map: keys, and a value for each.

use crate::error::{Error, Result};
use alloc::borrow::Cow;

/// A map: keys, and a value for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map<'a, K, V> {
    keys: &'a [K],
    values: &'a [V],
}

impl<'a, K: PartialEq, V> Map<'a, K, V> {
    /// Creates a map from `keys`, which must be distinct, to `values`.
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers of keys and values differ.
    pub fn new(keys: &'a [K], values: &'a [V]) -> Result<Map<'a, K, V>> {
        if keys.len() != values.len() {
            return Err(Error::Length { expected: keys.len(), found: values.len() });
        }
        Ok(Map { keys, values })
    }

    /// The keys.
    pub fn keys(&self) -> &'a [K] {
        self.keys
    }

    /// The values, in the order of the keys.
    pub fn values(&self) -> &'a [V] {
        self.values
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the value of `key`, if the map has it.
    pub fn get(&self, key: &K) -> Option<&'a V> {
        let at = self.keys.iter().position(|other| other == key)?;
        self.values.get(at)
    }

    /// Returns every key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
        self.keys.iter().zip(self.values)
    }
}

/// Several maps with the same keys, as `ZipMap` returns them.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps<'a, K: 'static, V: Clone> {
    keys: &'static [K],
    values: Cow<'a, [V]>,
}

impl<'a, K: PartialEq, V: Clone> Maps<'a, K, V> {
    /// Creates maps from `keys` to `values`, which are ordered map after map.
    pub fn new(keys: &'static [K], values: impl Into<Cow<'a, [V]>>) -> Maps<'a, K, V> {
        Maps { keys, values: values.into() }
    }

    /// The keys of every map.
    pub fn keys(&self) -> &'static [K] {
        self.keys
    }

    /// The values, map after map, each in the order of the keys.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// The number of maps.
    pub fn len(&self) -> usize {
        self.values.len() / self.keys.len().max(1)
    }

    /// Returns whether there are no maps.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns map `i`.
    pub fn get(&self, i: usize) -> Option<Map<'_, K, V>> {
        let values = self.values.chunks_exact(self.keys.len().max(1)).nth(i)?;
        Some(Map { keys: self.keys, values })
    }

    /// Returns every map, in order.
    pub fn iter(&self) -> impl Iterator<Item = Map<'_, K, V>> {
        let values = self.values.chunks_exact(self.keys.len().max(1));
        values.map(|values| Map { keys: self.keys, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_share_their_keys() {
        let maps = Maps::new(&["a", "b"], &[1.0, 2.0, 3.0, 4.0][..]);
        assert_eq!((maps.len(), maps.iter().count()), (2, 2));
        let second = maps.get(1).expect("`maps` has two maps");
        assert_eq!((second.get(&"a"), second.get(&"c")), (Some(&3.0), None));
        assert!(maps.get(2).is_none() && Maps::new(&["a"], &[0u8; 0][..]).is_empty());
        assert!(Map::new(&[1, 2], &[0.0]).is_err());
    }
}
