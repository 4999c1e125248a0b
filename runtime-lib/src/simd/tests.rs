//! Compares every vector operation of every level with the scalar operation.

use super::*;
use std::panic::catch_unwind;
use std::vec::Vec;

const VALUES: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    -0.3,
    1e-40,
    8_388_607.5,
    -8_388_608.0,
    3e9,
    f32::MAX,
    f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    -7.999_999_5,
];

struct Agree(Level);

impl Agree {
    #[inline(always)]
    fn same<S: Simd>(&self, s: S, name: &str, found: S::F32, wanted: f32) {
        let mut lanes = [0.0f32; MAX_LANES];
        s.store(found, &mut lanes);
        for found in &lanes[..S::LANES] {
            let same = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
            assert!(same, "{:?}: {name} gave {found:e}, not {wanted:e}", self.0);
        }
    }
}

impl WithSimd for Agree {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for a in VALUES {
            let x = s.splat(a);
            self.same(s, "sqrt", s.sqrt(x), a.sqrt());
            self.same(s, "round", s.round(x), a.round_ties_even());
            self.same(s, "floor", s.floor(x), a.floor());
            self.same(s, "ceil", s.ceil(x), a.ceil());
            self.same(s, "neg", s.neg(x), -a);
            self.same(s, "abs", s.abs(x), a.abs());
            if a.abs() < 1e9 {
                self.same(s, "to_i32", s.to_f32(s.to_i32(x)), a.round_ties_even() + 0.0);
            }
            for b in VALUES {
                self.pair(s, a, b);
            }
        }
        self.lanes(s);
    }
}

impl Agree {
    #[inline(always)]
    fn pair<S: Simd>(&self, s: S, a: f32, b: f32) {
        let (x, y, one, two) = (s.splat(a), s.splat(b), s.splat(1.0), s.splat(2.0));
        let chosen = |b| if b { 1.0 } else { 2.0 };
        self.same(s, "add", s.add(x, y), a + b);
        self.same(s, "sub", s.sub(x, y), a - b);
        self.same(s, "mul", s.mul(x, y), a * b);
        self.same(s, "div", s.div(x, y), a / b);
        self.same(s, "max", s.max(x, y), if a > b { a } else { b });
        self.same(s, "min", s.min(x, y), if a < b { a } else { b });
        self.same(s, "copysign", s.copysign(x, y), a.copysign(b));
        self.same(s, "lt", s.select(s.lt(x, y), one, two), chosen(a < b));
        self.same(s, "le", s.select(s.le(x, y), one, two), chosen(a <= b));
        self.same(s, "eq", s.select(s.eq(x, y), one, two), chosen(a == b));

        let (i, j) = (a.to_bits() as i32, b.to_bits() as i32);
        let (m, n) = (s.bits(x), s.bits(y));
        let bits = |x: i32| f32::from_bits(x as u32);
        self.same(s, "add_i32", s.with_bits(s.add_i32(m, n)), bits(i.wrapping_add(j)));
        self.same(s, "sub_i32", s.with_bits(s.sub_i32(m, n)), bits(i.wrapping_sub(j)));
        self.same(s, "and_i32", s.with_bits(s.and_i32(m, n)), bits(i & j));
        self.same(s, "or_i32", s.with_bits(s.or_i32(m, n)), bits(i | j));
        self.same(s, "shl_i32", s.with_bits(s.shl_i32::<5>(m)), bits(i << 5));
        self.same(s, "shr_i32", s.with_bits(s.shr_i32::<23>(m)), bits(i >> 23));
        self.same(s, "splat_i32", s.with_bits(s.splat_i32(i)), a);
    }

    /// Tests the operations whose result depends on the order of lanes.
    #[inline(always)]
    fn lanes<S: Simd>(&self, s: S) {
        let x: Vec<f32> = (1..).map(|i| i as f32).take(MAX_LANES).collect();
        let v = s.load(&x);
        let n = S::LANES as f32;
        assert_eq!(s.sum(v), n * (n + 1.0) / 2.0);
        assert_eq!(s.largest(v), n);
        assert_eq!(s.largest(s.neg(v)), -1.0);
        assert_eq!(s.fold(v, f32::max), n);
        self.same(s, "mul_add", s.mul_add(s.splat(3.0), s.splat(-5.0), s.splat(7.0)), -8.0);
        self.same(
            s,
            "scale up",
            s.scale(s.splat(0.75), s.splat(128.0)),
            0.75 * 2f32.powi(127) * 2.0,
        );
        self.same(s, "scale down", s.scale(s.splat(1.5), s.splat(-149.0)), 3e-45);
        let two: Vec<f32> = (0..).map(|i| i as f32).take(2 * MAX_LANES).collect();
        for (first, lanes) in
            s.evens_and_odds(s.load(&two), s.load(&two[S::LANES..])).into_iter().enumerate()
        {
            let mut y = [-1.0; MAX_LANES];
            s.store(lanes, &mut y);
            assert!((0..S::LANES).all(|i| y[i] == two[2 * i + first]), "{:?}: {y:?}", self.0);
        }
        self.transposed(s);
        for (i, &element) in x.iter().enumerate().take(S::LANES) {
            assert!(s.any(s.eq(v, s.splat(element))), "{:?}: lane {i}", self.0);
        }
        assert!(!s.any(s.lt(v, s.splat(1.0))), "{:?}: no lane", self.0);
        for n in 0..=S::LANES {
            let mut y = [-1.0; MAX_LANES + 1];
            s.store_head(s.load_head(&x[..n]), &mut y[..n]);
            assert!(y[..n] == x[..n] && y[n..].iter().all(|&y| y == -1.0), "{:?}: {y:?}", self.0);
            s.store(s.load_head(&x[..n]), &mut y);
            assert!(y[..n] == x[..n] && y[n..S::LANES].iter().all(|&y| y == 0.0));
            s.store(s.load_head_or(&x[..n], -7.0), &mut y);
            assert!(y[..n] == x[..n] && y[n..S::LANES].iter().all(|&y| y == -7.0));
        }
    }
}

impl Agree {
    #[inline(always)]
    fn transposed<S: Simd>(&self, s: S) {
        let square: Vec<f32> = (0..).map(|i| i as f32).take(MAX_LANES * MAX_LANES).collect();
        let mut rows = [s.splat(0.0); MAX_LANES];
        for (row, x) in rows.iter_mut().zip(square.chunks(S::LANES)) {
            *row = s.load_head(x);
        }
        s.transpose(&mut rows);
        for (i, row) in rows.iter().enumerate().take(S::LANES) {
            let mut y = [-1.0; MAX_LANES];
            s.store(*row, &mut y);
            for (j, y) in y.iter().enumerate().take(S::LANES) {
                assert_eq!(*y, square[j * S::LANES + i], "{:?}: row {i}, column {j}", self.0);
            }
        }
    }
}

#[test]
fn every_level_does_the_same() {
    each_level(|level| dispatch(Agree(level)));
    // Where the level of every processor has vectors, its arrays have the same results.
    portable::Portable.run(Agree(Level::Portable(Portable)));
}

/// Stores columns with a stride that overflows the address space, so that column addresses wrap
/// around.
struct FarColumns;

impl WithSimd for FarColumns {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let apart = usize::MAX / (S::LANES - 1) + 1;
        s.store_columns([s.splat(1.0); 4], &mut [0.0; 64], apart);
    }
}

#[test]
fn columns_outside_the_slice_panic() {
    each_level(|level| assert!(catch_unwind(|| dispatch(FarColumns)).is_err(), "{level:?}"));
}
