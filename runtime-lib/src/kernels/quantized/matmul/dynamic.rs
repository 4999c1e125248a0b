//! Products whose left operand is quantized at run time: their results are floats.

use super::{Multiply, Product, ROWS, Results, Work, from, subtract_products};
use crate::microkernel::int8_operands::Int8Epilogue;
use crate::simd::Simd;
use crate::simd::int8::{Byte, Bytes, MAX_SUMS, Vector, dispatch_bytes};

/// The operands of a product with dynamic quantization.
#[derive(Clone, Copy, Debug)]
pub struct DynamicMatMulOperands<'a> {
    /// The input.
    pub x: &'a [u8],
    /// The scale of the input.
    pub x_scale: &'a [f32],
    /// The zero point of the input.
    pub x_zero: &'a [u8],
    /// The packed weights.
    pub w: &'a [i8],
    /// The zero point of each column of weights, 0 if there are none.
    pub w_zero: Option<&'a [i32]>,
    /// The scale of each column.
    pub w_scale: &'a [f32],
    /// The sum of each column of weights without their zero point.
    pub sums: &'a [i32],
    /// One element for each column.
    pub bias: Option<&'a [f32]>,
}

/// `y = (x - x_zero) · (w - w_zero) · x_scale · w_scale + bias`, where the quantization of `x` is
/// computed at run time. The weights are packed by [`pack_columns`](super::pack_columns).
#[inline(never)]
pub fn dynamic_matmul(
    operands: DynamicMatMulOperands<'_>,
    y: &mut [f32],
    scratch: &mut [u8],
    geometry: Product,
) {
    let DynamicMatMulOperands { x, x_scale, x_zero, w, w_zero, w_scale, sums, bias } = operands;
    let needs_sums = w_zero.is_some();
    let product = Multiply { x, flip: 0, w: i8::bits(w), needs_sums, geometry };
    product.share(y, scratch, |product, first, y, scratch| {
        let results = ToFloats {
            y,
            x_scale: x_scale[0],
            x_zero: i32::from(x_zero[0]),
            w_zero: w_zero.map_or(&[], |zero| from(zero, first)),
            w_scale: from(w_scale, first),
            sums: from(sums, first),
            bias: bias.map_or(&[], |bias| from(bias, first)),
        };
        dispatch_bytes(Work { product, results, scratch });
    });
}

struct ToFloats<'a> {
    y: &'a mut [f32],
    x_scale: f32,
    x_zero: i32,
    w_zero: &'a [i32],
    w_scale: &'a [f32],
    sums: &'a [i32],
    bias: &'a [f32],
}

impl ToFloats<'_> {
    /// The initial accumulators of the columns from `j` on in a row with the sum `row`.
    #[inline(always)]
    fn starts<const N: usize>(&self, j: usize, row: i32) -> [i32; N] {
        let mut starts = [0; N];
        for (start, &sum) in starts.iter_mut().zip(from(self.sums, j)) {
            *start = self.x_zero.wrapping_mul(sum).wrapping_neg();
        }
        subtract_products(&mut starts, from(self.w_zero, j), row);
        starts
    }
}

impl Results for ToFloats<'_> {
    #[inline(always)]
    fn end<S: Bytes>(
        &mut self,
        _: S,
        geometry: Product,
        first: usize,
        rows: [i32; ROWS],
    ) -> impl Int8Epilogue<S> {
        let (n, of) = (geometry.n, ToFloats { y: &mut [], ..*self });
        FloatsEpilogue { y: &mut self.y[first * n..], n, rows, of }
    }

    #[inline(always)]
    fn start(&self, j: usize, row: i32) -> i32 {
        let [start] = self.starts(j, row);
        start
    }

    #[inline(always)]
    fn take(&mut self, at: usize, j: usize, sum: i32) {
        let real = sum as f32 * (self.x_scale * self.w_scale[j]);
        self.y[at] = self.bias.get(j).map_or(real, |bias| real + bias);
    }
}

struct FloatsEpilogue<'a, 'b> {
    y: &'a mut [f32],
    n: usize,
    /// The sums of the rows.
    rows: [i32; ROWS],
    of: ToFloats<'b>,
}

impl<S: Bytes> Int8Epilogue<S> for FloatsEpilogue<'_, '_> {
    #[inline(always)]
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S> {
        s.load_sums(&self.of.starts::<MAX_SUMS>(j, self.rows[i]))
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]) {
        let l = s.level();
        let x_scale = l.splat(self.of.x_scale);
        for (v, &sum) in sums.iter().enumerate() {
            let j = j + v * S::LANES;
            let Some(n) = self.n.checked_sub(j).filter(|&n| n > 0) else { return };
            let n = n.min(S::LANES);
            let scale = l.mul(x_scale, l.load_head(&self.of.w_scale[j..][..n]));
            let mut x = l.mul(l.to_f32(sum), scale);
            if !self.of.bias.is_empty() {
                x = l.add(x, l.load_head(&self.of.bias[j..][..n]));
            }
            l.store_head(x, &mut self.y[i * self.n + j..][..n]);
        }
    }
}
