//! Compares every byte operation of every level with the scalar operation.

use super::*;
use crate::simd::each_level;
use crate::simd::int8::scaled;
use std::vec::Vec;

#[derive(Clone, Copy)]
struct Agree;

fn bytes(seed: usize) -> Vec<u8> {
    (0..MAX_BYTES).map(|i| (i * 73 + seed * 91 + 128) as u8).collect()
}

impl WithBytes for Agree {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let rows = [0, 1, 2, 3].map(bytes);
        let [a, b, ..] = [0, 1].map(|i| s.load_bytes(&rows[i]));
        let mut found = [0; MAX_SUMS];
        s.store_sums(s.dot(s.level().splat_i32(5), a, b), &mut found[..S::LANES]);
        for (i, found) in found[..S::LANES].iter().enumerate() {
            let quad = 4 * i..4 * i + 4;
            let products = rows[0][quad.clone()].iter().zip(&rows[1][quad]);
            let sum: i32 = products.map(|(&a, &b)| i32::from(a) * i32::from(b as i8)).sum();
            assert_eq!(*found, sum + 5);
        }
        let (pairs, signed) = (s.widen_unsigned(a), s.widen_signed(b));
        for (half, (a, b)) in pairs.into_iter().zip(signed).enumerate() {
            s.store_sums(s.add_pairs(s.level().splat_i32(i32::MAX), a, b), &mut found[..S::LANES]);
            for (i, found) in found[..S::LANES].iter().enumerate() {
                let products = [0, 2]
                    .map(|at| 4 * i + half + at)
                    .map(|at| i32::from(rows[0][at]) * i32::from(rows[1][at] as i8));
                assert_eq!(*found, i32::MAX.wrapping_add(products[0]).wrapping_add(products[1]));
            }
        }
        let mut found = [0; MAX_BYTES];
        s.store_bytes(s.xor(a, s.level().splat_i32(0x0080_ff01)), &mut found);
        let flipped = |i: usize| rows[0][i] ^ [1, 0xff, 0x80, 0][i % 4];
        assert!((0..4 * S::LANES).all(|i| found[i] == flipped(i)));
        s.store_bytes(s.max_u8(a, b), &mut found);
        assert!((0..4 * S::LANES).all(|i| found[i] == rows[0][i].max(rows[1][i])));
        s.store_bytes(s.min_u8(a, b), &mut found);
        assert!((0..4 * S::LANES).all(|i| found[i] == rows[0][i].min(rows[1][i])));
        self.columns(s, &rows);
        for factor in [1.0, 0.37, 1.0 / 3.0, 2e-3, 3.06e-5, 3.04e-5, 1e-6, 0.0] {
            self.products(s, factor);
        }
        for n in 0..4 * S::LANES {
            let mut found = [7; MAX_BYTES];
            s.store_bytes(s.load_bytes(&rows[2][..n]), &mut found[..n]);
            assert!(found[..n] == rows[2][..n] && found[n..].iter().all(|&x| x == 7));
        }
    }
}

impl Agree {
    #[inline(always)]
    fn columns<S: Bytes>(self, s: S, rows: &[Vec<u8>; 4]) {
        let vectors = [0, 1, 2, 3].map(|i| s.load_bytes(&rows[i]));
        // The sum of each column, in the order of columns.
        let ones = s.level().splat_i32(0x0101_0101);
        let columns = s.interleave(vectors);
        let mut found = [0; MAX_BYTES];
        let low = |x| s.level().and_i32(x, s.level().splat_i32(0xff));
        let sums = [0, 1, 2, 3].map(|i| low(s.dot(s.level().splat_i32(0), columns[i], ones)));
        s.store_bytes(s.collect(sums), &mut found);
        let sum = |j: usize| rows.iter().fold(0u8, |sum, row| sum.wrapping_add(row[j]));
        for (v, sums) in s.in_order(sums).into_iter().enumerate() {
            let mut found = [0; MAX_SUMS];
            s.store_sums(sums, &mut found[..S::LANES]);
            let wanted = |i: usize| i32::from(sum(v * S::LANES + i));
            assert!((0..S::LANES).all(|i| found[i] == wanted(i)));
        }
        assert!((0..4 * S::LANES).all(|j| found[j] == sum(j)));
        let capped = [-70000, -1, 256, 70000].map(|x| s.level().splat_i32(x));
        s.store_bytes(s.collect(capped), &mut found);
        assert!(found[..4 * S::LANES].iter().all(|&x| x == 0 || x == 255));
        let few = [0, 1, 2, 3]
            .map(|i| rows[i].first_chunk().expect("a row of the test has `MAX_BYTES` bytes"));
        let column = s.dot(s.level().splat_i32(0), s.interleave_few(few), ones);
        assert!((0..S::LANES).all(|j| s.low_bytes(column)[j] == sum(j)));
    }

    /// Tests sums of any size, and sums that a factor makes ties of.
    #[inline(always)]
    fn products<S: Bytes>(self, s: S, factor: f32) {
        let l = s.level();
        let ends = Ends { limits: [l.splat(-7.0), l.splat(248.0)], zero: l.splat_i32(7) };
        let are_steady = are_steady(&[factor]);
        let near = |i: i32| ((0.5 + i as f32) / factor) as i32 - 2;
        let sums: Vec<i32> = [i32::MIN + 1]
            .into_iter()
            .chain((0..31).flat_map(|i| [1 << i, (1 << i) + 1, (1 << i) - 1]))
            .chain((0..160).flat_map(|i| (0..5).map(move |j| near(i).saturating_add(j))))
            .flat_map(|x: i32| [x, -x])
            .collect();
        for sums in sums.chunks_exact(S::LANES) {
            let products =
                s.whole_products(&[s.load_sums(sums)], &[l.splat(factor)], ends, are_steady);
            let Some([products]) = products else {
                assert!(!S::ROUNDS || !are_steady);
                continue;
            };
            let mut found = [0; MAX_SUMS];
            s.store_sums(products, &mut found);
            // Results outside the bytes are saturated when they are converted.
            for (&sum, found) in sums.iter().zip(found) {
                let wanted = scaled(sum, factor).saturating_add(7).clamp(0, 255);
                assert_eq!(found.clamp(0, 255), wanted, "{sum} times {factor:e}");
            }
        }
    }
}

#[test]
fn every_level_does_the_same_with_bytes() {
    each_level(|_| dispatch_bytes(Agree));
}
