//! Products with little code, for programs that optimize size.

use crate::loops::epilogue::Activation;
use crate::simd::dot::dot;

/// `y = f(x · wᵀ + c)`. The rows of `x` and `w` have `k` elements, and `c` has one element for each
/// row of `w`.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn small_gemm(x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32], k: usize, f: Activation) {
    sums(x, w, c, y, k);
    f.apply_small(y);
}

#[inline(never)]
fn sums(x: &[f32], w: &[f32], c: Option<&[f32]>, y: &mut [f32], k: usize) {
    let c = c.unwrap_or_default();
    let mut y = y.iter_mut();
    for x in x.chunks_exact(k.max(1)) {
        let mut c = c.iter();
        for (w, y) in w.chunks_exact(k.max(1)).zip(&mut y) {
            *y = dot(x, w, c.next().copied().unwrap_or(0.0));
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_multiplied_with_rows() {
        let (x, w) = ([1.0, 2.0, 3.0, 0.0, -1.0, 4.0], [1.0, 0.0, 1.0, -2.0, 1.0, 0.5]);
        let mut y = [f32::NAN; 4];
        small_gemm(&x, &w, None, &mut y, 3, Activation::Identity);
        assert_eq!(y, [4.0, 1.5, 4.0, 1.0]);
        small_gemm(&x, &w, Some(&[0.5, -2.0]), &mut y, 3, Activation::Relu);
        assert_eq!(y, [4.5, 0.0, 4.5, 0.0]);
    }
}
