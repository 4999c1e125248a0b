//! Kernels of `DictVectorizer`, `CastMap` and `ZipMap`, which look up and sort the keys of maps.

use crate::Elem;
use alloc::{string::String, vec::Vec};

/// The index that stands for a missing key.
const MISSING: i64 = -1;

/// Writes the index of each wanted key among the keys of a map, or -1 for a missing key.
pub fn find_keys<K: Elem>(keys: &[K], wanted: &[K], places: &mut [i64]) {
    for (place, wanted) in places.iter_mut().zip(wanted) {
        *place = position(keys, |key| key == wanted);
    }
}

/// Computes [`find_keys`] for wanted strings that are concatenated to `text`, with the end of each
/// in `ends`.
pub fn find_text_keys(keys: &[String], text: &[u8], ends: &[u32], places: &mut [i64]) {
    let mut start = 0;
    for (place, &end) in places.iter_mut().zip(ends) {
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(text.len());
        *place = position(keys, |key| key.as_bytes() == &text[start..end]);
        start = end;
    }
}

fn position<K>(keys: &[K], is_wanted: impl Fn(&K) -> bool) -> i64 {
    // The last of equal keys wins, as if the keys were inserted in order.
    keys.iter().rposition(is_wanted).and_then(|at| i64::try_from(at).ok()).unwrap_or(MISSING)
}

/// Writes the indices that sort the keys of a map.
pub fn sort_keys(keys: &[i64], places: &mut [i64]) {
    let mut sorted: Vec<(i64, i64)> = keys.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    for (place, (_, at)) in places.iter_mut().zip(sorted) {
        *place = at;
    }
}

/// Writes the value at each index; zero or an empty string for a missing key.
pub fn pick_values<V: Elem>(values: &[V], places: &[i64], y: &mut [V]) {
    for (y, &place) in y.iter_mut().zip(places) {
        let value = usize::try_from(place).ok().and_then(|place| values.get(place));
        *y = value.cloned().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_the_order_of_the_wanted_keys() {
        let (keys, values) = ([3, -1, 7], [30.0, 10.0, 70.0]);
        let (mut places, mut y) = ([0; 4], [9.0; 4]);
        find_keys(&keys, &[7, 8, 3, 0], &mut places);
        pick_values(&values, &places, &mut y);
        assert_eq!(y, [70.0, 0.0, 30.0, 0.0]);
        sort_keys(&keys, &mut places[..3]);
        pick_values(&values, &places[..3], &mut y[..3]);
        assert_eq!(y[..3], [10.0, 30.0, 70.0]);
        find_text_keys(&["x".into(), "yz".into()], b"yzwx", &[2, 3, 4], &mut places[..3]);
        assert_eq!(places[..3], [1, MISSING, 0]);
    }
}
