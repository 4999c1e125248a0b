//! The level of every processor: arrays, which rustc vectorizes where it can. It is also the level
//! of microcontrollers.

use super::{Sealed, Simd, WithSimd};
use core::array::from_fn;

/// Vectors of four elements, without processor-specific instructions.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

const N: usize = 4;
type F32 = [f32; N];
type I32 = [i32; N];
type F64 = [f64; N / 2];

/// 2²³: every `f32` from here on is an integer.
const WHOLE: f32 = 8_388_608.0;

/// Rounds toward zero, for numbers below [`WHOLE`].
#[inline(always)]
fn trunc_small(x: f32) -> f32 {
    x as i32 as f32
}

/// Returns `f(x)` with the sign of `x`, or `x` if it is an integer because of its size.
#[inline(always)]
fn round_with(x: f32, f: impl Fn(f32) -> f32) -> f32 {
    if x.abs() < WHOLE { f(x).copysign(x) } else { x }
}

/// Returns 2^n for `n` from -126 to 127.
#[inline(always)]
fn exp2_whole(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

impl Sealed for Portable {}

impl Simd for Portable {
    type F32 = F32;
    type I32 = I32;
    type F64 = F64;
    type Mask = [bool; N];
    const LANES: usize = N;
    const IS_SCALAR: bool = true;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        op.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> F32 {
        [x; N]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> F32 {
        *from.first_chunk().expect("the slice has `LANES` elements")
    }

    #[inline(always)]
    fn store(self, x: F32, to: &mut [f32]) {
        *to.first_chunk_mut().expect("the slice has `LANES` elements") = x;
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> F32 {
        // SAFETY: an array has the alignment of its elements; the caller guarantees the elements.
        unsafe { from.cast::<F32>().read() }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: F32, to: *mut f32) {
        // SAFETY: an array has the alignment of its elements; the caller guarantees the elements.
        unsafe { to.cast::<F32>().write(x) }
    }

    #[inline(always)]
    fn add(self, a: F32, b: F32) -> F32 {
        from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: F32, b: F32) -> F32 {
        from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: F32, b: F32) -> F32 {
        from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: F32, b: F32) -> F32 {
        from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn mul_add(self, a: F32, b: F32, c: F32) -> F32 {
        from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn evens_and_odds(self, a: F32, b: F32) -> [F32; 2] {
        [[a[0], a[2], b[0], b[2]], [a[1], a[3], b[1], b[3]]]
    }

    #[inline(always)]
    fn max(self, a: F32, b: F32) -> F32 {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: F32, b: F32) -> F32 {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn sqrt(self, x: F32) -> F32 {
        from_fn(|i| libm::sqrtf(x[i]))
    }

    #[inline(always)]
    fn round(self, x: F32) -> F32 {
        // Adding and subtracting 2²³ rounds to an integer.
        from_fn(|i| round_with(x[i], |x| (x.abs() + WHOLE) - WHOLE))
    }

    #[inline(always)]
    fn floor(self, x: F32) -> F32 {
        from_fn(|i| {
            round_with(x[i], |x| {
                let t = trunc_small(x);
                if t > x { t - 1.0 } else { t }
            })
        })
    }

    #[inline(always)]
    fn ceil(self, x: F32) -> F32 {
        from_fn(|i| {
            round_with(x[i], |x| {
                let t = trunc_small(x);
                if t < x { t + 1.0 } else { t }
            })
        })
    }

    #[inline(always)]
    fn scale(self, x: F32, n: F32) -> F32 {
        // Two factors, because 2^n may be outside the range of `f32` although x · 2^n is not.
        from_fn(|i| {
            let n = n[i] as i32;
            x[i] * exp2_whole(n >> 1) * exp2_whole(n - (n >> 1))
        })
    }

    #[inline(always)]
    fn lt(self, a: F32, b: F32) -> [bool; N] {
        from_fn(|i| a[i] < b[i])
    }

    #[inline(always)]
    fn le(self, a: F32, b: F32) -> [bool; N] {
        from_fn(|i| a[i] <= b[i])
    }

    #[inline(always)]
    fn eq(self, a: F32, b: F32) -> [bool; N] {
        from_fn(|i| a[i] == b[i])
    }

    #[inline(always)]
    fn select(self, mask: [bool; N], a: F32, b: F32) -> F32 {
        from_fn(|i| if mask[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn any(self, mask: [bool; N]) -> bool {
        mask.contains(&true)
    }

    #[inline(always)]
    fn bits(self, x: F32) -> I32 {
        from_fn(|i| x[i].to_bits() as i32)
    }

    #[inline(always)]
    fn with_bits(self, x: I32) -> F32 {
        from_fn(|i| f32::from_bits(x[i] as u32))
    }

    #[inline(always)]
    fn to_i32(self, x: F32) -> I32 {
        self.round(x).map(|x| x as i32)
    }

    #[inline(always)]
    fn to_f32(self, x: I32) -> F32 {
        from_fn(|i| x[i] as f32)
    }

    #[inline(always)]
    fn splat_i32(self, x: i32) -> I32 {
        [x; N]
    }

    #[inline(always)]
    fn add_i32(self, a: I32, b: I32) -> I32 {
        from_fn(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    fn sub_i32(self, a: I32, b: I32) -> I32 {
        from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    #[inline(always)]
    fn and_i32(self, a: I32, b: I32) -> I32 {
        from_fn(|i| a[i] & b[i])
    }

    #[inline(always)]
    fn or_i32(self, a: I32, b: I32) -> I32 {
        from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn shl_i32<const BITS: i32>(self, x: I32) -> I32 {
        from_fn(|i| x[i] << BITS)
    }

    #[inline(always)]
    fn shr_i32<const BITS: i32>(self, x: I32) -> I32 {
        from_fn(|i| x[i] >> BITS)
    }

    #[inline(always)]
    fn sum(self, x: F32) -> f32 {
        (x[0] + x[2]) + (x[1] + x[3])
    }

    #[inline(always)]
    fn splat_f64(self, x: f64) -> F64 {
        [x; N / 2]
    }

    #[inline(always)]
    unsafe fn load_f64_at(self, from: *const f64) -> F64 {
        // SAFETY: an array has the alignment of its elements; the caller guarantees the elements.
        unsafe { from.cast::<F64>().read() }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: F64, to: *mut f64) {
        // SAFETY: an array has the alignment of its elements; the caller guarantees the elements.
        unsafe { to.cast::<F64>().write(x) }
    }

    #[inline(always)]
    fn add_f64(self, a: F64, b: F64) -> F64 {
        from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn max_f64(self, a: F64, b: F64) -> F64 {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min_f64(self, a: F64, b: F64) -> F64 {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn sum_f64(self, x: F64) -> f64 {
        x[0] + x[1]
    }

    #[inline(always)]
    fn mul_add_f64(self, a: F64, b: F64, c: F64) -> F64 {
        from_fn(|i| a[i] * b[i] + c[i])
    }
}
