//! Maps: keys, and a value for each.

use crate::error::{Error, Result};
use alloc::borrow::Cow;

/// Keys, and a value for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map<'a, K, V> {
    keys: &'a [K],
    values: &'a [V],
}

impl<'a, K: PartialEq, V> Map<'a, K, V> {
    /// A map of these keys, which differ, to these values.
    ///
    /// # Errors
    ///
    /// Where there are not as many values as keys.
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

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The value for a key.
    pub fn get(&self, key: &K) -> Option<&'a V> {
        let at = self.keys.iter().position(|other| other == key)?;
        self.values.get(at)
    }

    /// Every key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
        self.keys.iter().zip(self.values)
    }
}

/// Maps that have their keys in common: what `ZipMap` gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps<'a, K: 'static, V: Clone> {
    keys: &'static [K],
    values: Cow<'a, [V]>,
}

impl<'a, K: PartialEq, V: Clone> Maps<'a, K, V> {
    /// Maps of these keys to the values given, map after map.
    pub fn new(keys: &'static [K], values: impl Into<Cow<'a, [V]>>) -> Maps<'a, K, V> {
        Maps { keys, values: values.into() }
    }

    /// The keys that every map has.
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

    /// Whether there is no map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Map `i`.
    pub fn get(&self, i: usize) -> Option<Map<'_, K, V>> {
        let values = self.values.chunks_exact(self.keys.len().max(1)).nth(i)?;
        Some(Map { keys: self.keys, values })
    }

    /// Every map, in order.
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
        let second = maps.get(1).expect("there are two");
        assert_eq!((second.get(&"a"), second.get(&"c")), (Some(&3.0), None));
        assert!(maps.get(2).is_none() && Maps::new(&["a"], &[0u8; 0][..]).is_empty());
        assert!(Map::new(&[1, 2], &[0.0]).is_err());
    }
}
