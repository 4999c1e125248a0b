//! Maps: keys, and a value for each.

use crate::{
    Elem,
    error::{Error, Result},
};
use alloc::{borrow::Cow, string::String, vec::Vec};

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

/// Says that there is no such key.
const NOWHERE: i64 = -1;

/// Where each of the keys wanted stands among the keys of a map.
pub fn find<K: Elem>(keys: &[K], wanted: &[K], places: &mut [i64]) {
    for (place, wanted) in places.iter_mut().zip(wanted) {
        *place = position(keys, |key| key == wanted);
    }
}

/// [`find`] for keys that are one text, with the place behind each.
pub fn find_text(keys: &[String], text: &[u8], ends: &[u32], places: &mut [i64]) {
    let mut start = 0;
    for (place, &end) in places.iter_mut().zip(ends) {
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(text.len());
        *place = position(keys, |key| key.as_bytes() == &text[start..end]);
        start = end;
    }
}

fn position<K>(keys: &[K], is_wanted: impl Fn(&K) -> bool) -> i64 {
    // The last of equal keys counts, as where a map is filled one by one.
    keys.iter().rposition(is_wanted).and_then(|at| i64::try_from(at).ok()).unwrap_or(NOWHERE)
}

/// Where the keys of a map stand, in ascending order.
pub fn order(keys: &[i64], places: &mut [i64]) {
    let mut sorted: Vec<(i64, i64)> = keys.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    for (place, (_, at)) in places.iter_mut().zip(sorted) {
        *place = at;
    }
}

/// The value at each place; zero or empty where there is none.
pub fn pick<V: Elem>(values: &[V], places: &[i64], y: &mut [V]) {
    for (y, &place) in y.iter_mut().zip(places) {
        let value = usize::try_from(place).ok().and_then(|place| values.get(place));
        *y = value.cloned().unwrap_or_default();
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

    #[test]
    fn values_follow_the_keys_wanted() {
        let (keys, values) = ([3, -1, 7], [30.0, 10.0, 70.0]);
        let (mut places, mut y) = ([0; 4], [9.0; 4]);
        find(&keys, &[7, 8, 3, 0], &mut places);
        pick(&values, &places, &mut y);
        assert_eq!(y, [70.0, 0.0, 30.0, 0.0]);
        order(&keys, &mut places[..3]);
        pick(&values, &places[..3], &mut y[..3]);
        assert_eq!(y[..3], [10.0, 30.0, 70.0]);
        find_text(&["x".into(), "yz".into()], b"yzwx", &[2, 3, 4], &mut places[..3]);
        assert_eq!(places[..3], [1, NOWHERE, 0]);
    }
}
