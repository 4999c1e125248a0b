//! Reduced weight precision (`--precision`): stores constant weights in 16 or 8 bits.
//!
//! The weights are stored in the order in which kernels read them, packed or not. A kernel either
//! widens them itself, or reads a widened copy in scratch memory of its call.

use super::blocked::BLOCK;
use crate::{
    diag::Result,
    dtype::DType,
    ir::Lower,
    plan::{
        Arg, Kernel, NoParams, Operand, Optimize, Order, Precision, Weight, geometry, kernel,
        size_function,
    },
    tensor::Tensor,
    ty::count,
};
use onnxc_runtime::{
    bf16, f16,
    kernels::{epilogue::Activation, weight_precision::Panels},
};
use std::rc::Rc;

static WIDEN_BF16: Kernel<NoParams> =
    kernel!(F32_ONLY T, weight_precision::widen_bf16, |f, a, _p| f(a.input(0), a.output(0)));
static WIDEN_F16: Kernel<NoParams> =
    kernel!(F32_ONLY T, weight_precision::widen_f16, |f, a, _p| f(a.input(0), a.output(0)));
static WIDEN_I8: Kernel<geometry::Panels> = kernel!(F32_ONLY T,
    weight_precision::widen_i8, |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

/// A kernel for a product whose right operand has reduced precision.
type Product = Kernel<(geometry::Gemm, Activation)>;

static GEMM_BF16: Product = kernel!(F32_ONLY T, weight_precision::gemm_bf16, |f, a, p| f(
    a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1));
static GEMM_F16: Product = kernel!(F32_ONLY T, weight_precision::gemm_f16, |f, a, p| f(
    a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1));
static GEMM_I8: Product = kernel!(F32_ONLY T,
    weight_precision::gemm_i8 { operands: weight_precision::Int8GemmOperands {
        a: input(0), b: input(1), scales: input(2), c: optional(3),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1));

/// A weight with reduced precision.
pub(super) struct ReducedWeight {
    encoding: Encoding,
    /// The stored elements.
    pub weights: Operand,
    len: usize,
}

/// The element format of a [`ReducedWeight`].
enum Encoding {
    Bf16,
    F16,
    /// `int8`, with the scales and the layout of the channels that they belong to.
    Int8(Operand, Panels),
}

/// Input `i` if it is a constant of `float`, the options ask for a reduced precision, and no
/// element overflows in it.
fn reducible_constant(cx: &Lower<'_>, i: usize) -> Option<Tensor> {
    let constant = cx.constant(i)?;
    let speed = cx.optimize() == Optimize::Speed;
    if constant.dtype != DType::F32 || constant.is_empty() || !speed {
        return None;
    }
    let fits: fn(f32) -> bool = match cx.precision() {
        Precision::Full => return None,
        Precision::Bf16 => |x| bf16::from_f32(x).is_finite(),
        Precision::F16 => |x| f16::from_f32(x).is_finite(),
        Precision::Int8Weights => f32::is_finite,
    };
    floats(constant).all(fits).then(|| constant.clone())
}

impl ReducedWeight {
    /// Stores input `i` in `order` with reduced precision, if it is a constant and the options ask
    /// for it. `int8` needs `panels`.
    pub fn store(
        cx: &mut Lower<'_>,
        i: usize,
        order: Rc<dyn Order>,
        panels: Option<Panels>,
    ) -> Option<ReducedWeight> {
        let constant = reducible_constant(cx, i)?;
        let (encoding, target) = match cx.precision() {
            Precision::Full | Precision::Bf16 => (Encoding::Bf16, Target::Bf16),
            Precision::F16 => (Encoding::F16, Target::F16),
            Precision::Int8Weights => {
                let scales = Scales::compute(&*order, &constant, panels?);
                let operand = cx.weight(&Tensor::from_floats(&scales.scales));
                (Encoding::Int8(operand, scales.panels), Target::Int8(scales))
            }
        };
        let len = order.elements();
        let reduced = Rc::new(ReducedOrder { order, target });
        let weights = cx.weight_for(i, Weight::ordered(constant, reduced));
        Some(ReducedWeight { encoding, weights, len })
    }

    /// The type of the stored elements.
    pub fn dtype(&self) -> DType {
        match self.encoding {
            Encoding::Bf16 | Encoding::F16 => DType::U16,
            Encoding::Int8(..) => DType::I8,
        }
    }

    /// The scales of `int8` weights.
    pub fn scales(&self) -> Option<Operand> {
        match &self.encoding {
            Encoding::Bf16 | Encoding::F16 => None,
            Encoding::Int8(scales, _) => Some(scales.clone()),
        }
    }

    /// Widens the whole weight into scratch memory of the next call.
    pub fn widen_all(&self, cx: &mut Lower<'_>) -> Operand {
        let wide = cx.scratch(DType::F32, self.len);
        let scales = self.scales();
        let panels = match &self.encoding {
            Encoding::Bf16 | Encoding::F16 => Panels::plain(1),
            Encoding::Int8(_, panels) => *panels,
        };
        let panels = geometry::Panels {
            lanes: panels.lanes,
            rows: panels.rows.into(),
            depth: panels.depth.into(),
        };
        self.widen(cx, (self.weights.clone(), scales), wide.clone(), panels)
            .expect("the widening kernels have a `float` variant");
        wide
    }

    /// Widens some weights of the same encoding, with their scales.
    pub fn widen(
        &self,
        cx: &mut Lower<'_>,
        (weights, scales): (Operand, Option<Operand>),
        to: Operand,
        panels: geometry::Panels,
    ) -> Result {
        let mut inputs: Vec<Arg> = vec![weights.into()];
        inputs.extend(scales.map(Arg::from));
        let outputs = vec![to.into()];
        match self.encoding {
            Encoding::Bf16 => cx.call_on(&WIDEN_BF16, DType::F32, inputs, outputs, NoParams),
            Encoding::F16 => cx.call_on(&WIDEN_F16, DType::F32, inputs, outputs, NoParams),
            Encoding::Int8(..) => cx.call_on(&WIDEN_I8, DType::F32, inputs, outputs, panels),
        }
    }
}

/// Stores input `i` as pairs of `bfloat16` numbers, each from two consecutive rows of a panel or
/// block, if it is a constant and the weight precision is `bf16`. `rows` is the number of rows of a
/// panel, which must be even.
pub(super) fn store_bf16_pairs(
    cx: &mut Lower<'_>,
    i: usize,
    order: Rc<dyn Order>,
    rows: usize,
) -> Option<Operand> {
    if cx.precision() != Precision::Bf16 || !rows.is_multiple_of(PAIR) {
        return None;
    }
    let constant = reducible_constant(cx, i)?;
    let reduced = Rc::new(ReducedOrder { order, target: Target::Bf16Pairs });
    Some(cx.weight_for(i, Weight::ordered(constant, reduced)))
}

/// The right operand of a product with reduced precision, and the kernel that reads it.
pub(super) struct ReducedOperand {
    weights: Operand,
    scales: Option<Operand>,
    kernel: &'static Product,
}

impl ReducedOperand {
    /// Stores input `i`, a matrix of `rows` rows, in the packed `order` with reduced precision, if
    /// it is a constant, the options ask for it, and there is a kernel for it.
    pub fn store(
        cx: &mut Lower<'_>,
        i: usize,
        order: Rc<dyn Order>,
        panels: Option<Panels>,
        rows: usize,
    ) -> Option<ReducedOperand> {
        let kernel = match cx.precision() {
            Precision::Full => return None,
            Precision::Bf16 => {
                let weights = store_bf16_pairs(cx, i, order, rows)?;
                return Some(ReducedOperand { weights, scales: None, kernel: &GEMM_BF16 });
            }
            Precision::F16 => &GEMM_F16,
            Precision::Int8Weights => &GEMM_I8,
        };
        let stored = ReducedWeight::store(cx, i, order, panels)?;
        Some(ReducedOperand { weights: stored.weights.clone(), scales: stored.scales(), kernel })
    }

    /// Calls the product of input 0 and this operand, with input 2 as bias.
    pub fn multiply(self, cx: &mut Lower<'_>, geometry: geometry::Gemm, f: Activation) -> Result {
        let geometry = geometry::Gemm { b: geometry::Layout::Packed, ..geometry };
        let function = size_function!(weight_precision::gemm_scratch);
        let scratch = cx.scratch_len(&geometry, function, |most| geometry.narrow_scratch(most));
        let mut inputs: Vec<Arg> = vec![cx.input(0)?.into(), self.weights.into()];
        inputs.extend(self.scales.map(Arg::from));
        inputs.push(Arg::Optional(cx.optional(2)?));
        let outputs = vec![cx.output(0)?.into(), cx.scratch(DType::F32, scratch).into()];
        cx.call_on(self.kernel, DType::F32, inputs, outputs, (geometry, f))
    }
}

/// Stores input `i` in row-major order with reduced precision, if it is a constant and the options
/// ask for it. Each index along the first axis is a channel.
pub(super) fn store_row_major(cx: &mut Lower<'_>, i: usize) -> Option<ReducedWeight> {
    let constant = cx.constant(i)?;
    let rows = count(constant.shape.get(1..)?);
    let order = Rc::new(RowMajor { elements: constant.len() });
    ReducedWeight::store(cx, i, order, Some(Panels::plain(rows)))
}

/// Stores input `i` like [`store_row_major`], and widens it into scratch memory of the next call.
pub(super) fn widen_row_major(cx: &mut Lower<'_>, i: usize) -> Option<Operand> {
    store_row_major(cx, i).map(|stored| stored.widen_all(cx))
}

/// The order of elements in ONNX.
struct RowMajor {
    elements: usize,
}

impl Order for RowMajor {
    fn elements(&self) -> usize {
        self.elements
    }

    fn pieces(&self) -> usize {
        1
    }

    fn piece(&self, _: usize, constant: &Tensor) -> Tensor {
        constant.clone()
    }
}

/// The format to which elements are rounded.
enum Target {
    Bf16,
    /// Pairs of elements of two consecutive rows of a panel, the first in the lower bits.
    Bf16Pairs,
    F16,
    Int8(Scales),
}

/// The scales of `int8` weights.
struct Scales {
    /// The scale of each channel.
    scales: Vec<f32>,
    /// The offset of each piece, in elements.
    starts: Vec<usize>,
    panels: Panels,
}

/// An order whose elements are rounded to a reduced precision.
struct ReducedOrder {
    order: Rc<dyn Order>,
    target: Target,
}

impl Order for ReducedOrder {
    fn elements(&self) -> usize {
        match self.target {
            Target::Bf16Pairs => self.order.elements() / PAIR,
            Target::Bf16 | Target::F16 | Target::Int8(_) => self.order.elements(),
        }
    }

    fn dtype(&self, _: DType) -> DType {
        match self.target {
            Target::Bf16Pairs => DType::U32,
            Target::Bf16 | Target::F16 => DType::U16,
            Target::Int8(_) => DType::I8,
        }
    }

    fn pieces(&self) -> usize {
        self.order.pieces()
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        let piece = self.order.piece(i, constant);
        let bytes: Vec<u8> = match &self.target {
            Target::Bf16Pairs => {
                interleave_rows(&floats(&piece).map(bf16::from_f32).collect::<Vec<_>>())
            }
            Target::Bf16 => floats(&piece).flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
            Target::F16 => floats(&piece).flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
            Target::Int8(scales) => scales.quantize(i, &piece, self.order.elements()),
        };
        let len = match self.target {
            Target::Bf16Pairs => piece.len() / PAIR,
            Target::Bf16 | Target::F16 | Target::Int8(_) => piece.len(),
        };
        Tensor::from_raw(self.dtype(DType::F32), vec![len], bytes.into())
    }
}

/// The number of elements in a pair.
const PAIR: usize = 2;

/// Interleaves each two consecutive rows of a panel.
fn interleave_rows(numbers: &[bf16]) -> Vec<u8> {
    let rows = numbers.chunks(PAIR * BLOCK).map(|rows| rows.split_at(BLOCK));
    let columns = rows.flat_map(|(first, second)| first.iter().zip(second));
    columns
        .flat_map(|(first, second)| [first.to_le_bytes(), second.to_le_bytes()].concat())
        .collect()
}

/// The largest magnitude of an `int8` weight.
const MOST: f32 = 127.0;

impl Scales {
    /// Computes the scale of each channel such that its largest magnitude becomes [`MOST`].
    fn compute(order: &dyn Order, constant: &Tensor, panels: Panels) -> Scales {
        let len = order.elements();
        let mut largest = vec![0.0f32; panels.factors(len)];
        let (mut starts, mut start) = (Vec::new(), 0);
        for i in 0..order.pieces() {
            let piece = order.piece(i, constant);
            for_each_scale(&piece, (start, len), panels, |x, scale| {
                largest[scale] = largest[scale].max(x.abs());
            });
            starts.push(start);
            start += piece.len();
        }
        // The scale of an all-zero channel is arbitrary, but must be neither 0 nor subnormal.
        let scales = largest.into_iter().map(|x| (x / MOST).max(f32::MIN_POSITIVE)).collect();
        Scales { scales, starts, panels }
    }

    /// Quantizes piece `i` of `len` packed elements.
    fn quantize(&self, i: usize, piece: &Tensor, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(piece.len());
        for_each_scale(piece, (self.starts[i], len), self.panels, |x, scale| {
            let byte = (x / self.scales[scale]).round().clamp(-MOST, MOST) as i8;
            bytes.extend(byte.to_le_bytes());
        });
        bytes
    }
}

/// Calls `visit` with each element of a piece and the index of its scale. The piece starts at
/// `start` of `len` packed elements.
fn for_each_scale(
    piece: &Tensor,
    (start, len): (usize, usize),
    panels: Panels,
    mut visit: impl FnMut(f32, usize),
) {
    let (mut first, mut left, mut lane) = (0, 0, 0);
    for (at, x) in floats(piece).enumerate() {
        if left == 0 {
            (first, left) = panels.factor(start + at, len);
            lane = 0;
        }
        visit(x, first + lane);
        lane = if lane + 1 == panels.lanes { 0 } else { lane + 1 };
        left -= 1;
    }
}

fn floats(tensor: &Tensor) -> impl Iterator<Item = f32> {
    tensor.bytes().as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::pack::{Pack, Right};
    use onnxc_runtime::kernels::matmul::Packing;

    /// A packed right operand.
    struct Packed(Right);

    impl Order for Packed {
        fn elements(&self) -> usize {
            self.0.len::<f32>()
        }

        fn pieces(&self) -> usize {
            self.0.pieces::<f32>()
        }

        fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
            let numbers: Vec<f32> = floats(constant).collect();
            Tensor::from_floats(&self.0.pack(i, &numbers))
        }
    }

    #[test]
    fn int8_weights_are_within_half_a_step_of_their_channel() {
        let (rows, cols) = (1900, 100);
        let number = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) * (1 + i % cols) as f32;
        let numbers: Vec<f32> = (0..rows * cols).map(number).collect();
        let constant = Tensor::from_floats(&numbers);
        let right = || Right(Packing { rows, cols, strides: [cols, 1] });
        let panels = right().panels().expect("a right operand has panels");
        let order: Rc<dyn Order> = Rc::new(Packed(right()));
        assert!(order.pieces() > 1);
        let scales = Scales::compute(&*order, &constant, panels);
        let scale_values = scales.scales.clone();
        let reduced = ReducedOrder { order: order.clone(), target: Target::Int8(scales) };
        let weight = Weight::ordered(constant.clone(), Rc::new(reduced)).tensor();
        assert_eq!(weight.dtype, DType::I8);
        let bytes: Vec<i8> = weight.bytes().iter().map(|&x| x as i8).collect();
        let mut wide = vec![f32::NAN; bytes.len()];
        onnxc_runtime::kernels::weight_precision::widen_i8(
            &bytes,
            &scale_values,
            &mut wide,
            panels,
        );
        let packed = Weight::ordered(constant, order).tensor();
        let mut wide = wide.into_iter();
        for_each_scale(&packed, (0, bytes.len()), panels, |x, scale| {
            let y = wide.next().expect("`wide` has as many elements as `bytes`");
            assert!((x - y).abs() <= 0.501 * scale_values[scale], "{x} became {y}");
        });
    }
}
