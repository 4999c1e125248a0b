//! Constant weights in fewer bits, as the options wish. The blob has them as kernels read them, packed
//! or not; what they are widened to is memory of the call that reads them.

use super::blocked::BLOCK;
use crate::{
    diag::Result,
    dtype::DType,
    ir::Lower,
    plan::{Arg, Kernel, NoParams, Operand, Optimize, Order, Precision, Weight, geometry, kernel},
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
static WIDEN_I8: Kernel<geometry::Panels> = kernel!(F32_ONLY T, weight_precision::widen_i8, |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

/// A product.
type Product = Kernel<(geometry::Gemm, Activation)>;

static GEMM_BF16: Product = kernel!(F32_ONLY T, weight_precision::gemm_bf16, |f, a, p| f(
    a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1));
static GEMM_F16: Product = kernel!(F32_ONLY T, weight_precision::gemm_f16, |f, a, p| f(
    a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1));
static GEMM_I8: Product = kernel!(F32_ONLY T, weight_precision::gemm_i8, |f, a, p| f(
    a.input(0), a.input(1), a.input(2), a.optional(3), a.output(0), a.output(1), p.0, p.1));

/// A weight in fewer bits.
pub(super) struct Stored {
    kind: Kind,
    /// Where it is.
    pub weights: Operand,
    len: usize,
}

/// What it takes to widen a weight.
enum Kind {
    Bf16,
    F16,
    /// The factors, and where the channels are that have them.
    Bytes(Operand, Panels),
}

/// Input `i`, where it is a constant of `float` that is to stand in fewer bits, and none of its numbers
/// is infinite there.
fn fitting(cx: &Lower<'_>, i: usize) -> Option<Tensor> {
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

impl Stored {
    /// Input `i` in that order, where it is to stand in fewer bits.
    pub fn of(
        cx: &mut Lower<'_>,
        i: usize,
        order: Rc<dyn Order>,
        panels: Option<Panels>,
    ) -> Option<Stored> {
        let constant = fitting(cx, i)?;
        let (kind, to) = match cx.precision() {
            Precision::Full | Precision::Bf16 => (Kind::Bf16, To::Bf16),
            Precision::F16 => (Kind::F16, To::F16),
            Precision::Int8Weights => {
                let scales = Scales::of(&*order, &constant, panels?);
                let factors = cx.weight(&Tensor::from_floats(&scales.factors));
                (Kind::Bytes(factors, scales.panels), To::Bytes(scales))
            }
        };
        let len = order.elements();
        let narrow = Rc::new(Narrow { order, to });
        let weights = cx.weight_for(i, Weight::ordered(constant, narrow));
        Some(Stored { kind, weights, len })
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self.kind {
            Kind::Bf16 | Kind::F16 => DType::U16,
            Kind::Bytes(..) => DType::I8,
        }
    }

    /// The factors, where it has such.
    pub fn scales(&self) -> Option<Operand> {
        match &self.kind {
            Kind::Bf16 | Kind::F16 => None,
            Kind::Bytes(scales, _) => Some(scales.clone()),
        }
    }

    /// All of it, in memory of the call that follows.
    pub fn widened(&self, cx: &mut Lower<'_>) -> Operand {
        let wide = cx.scratch(DType::F32, self.len);
        let scales = self.scales();
        let panels = match &self.kind {
            Kind::Bf16 | Kind::F16 => Panels::plain(1),
            Kind::Bytes(_, panels) => *panels,
        };
        let panels = geometry::Panels {
            lanes: panels.lanes,
            rows: panels.rows.into(),
            depth: panels.depth.into(),
        };
        self.widen(cx, (self.weights.clone(), scales), wide.clone(), panels)
            .expect("the kernels are those of `float`");
        wide
    }

    /// Widens weights that are stored as these are, with their factors.
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
        match self.kind {
            Kind::Bf16 => cx.call_on(&WIDEN_BF16, DType::F32, inputs, outputs, NoParams),
            Kind::F16 => cx.call_on(&WIDEN_F16, DType::F32, inputs, outputs, NoParams),
            Kind::Bytes(..) => cx.call_on(&WIDEN_I8, DType::F32, inputs, outputs, panels),
        }
    }
}

/// Input `i` in the order of panels or blocks that have so many rows for each column, two of which become
/// one of pairs of `bfloat16` numbers, where it is to stand so.
pub(super) fn pairs(
    cx: &mut Lower<'_>,
    i: usize,
    order: Rc<dyn Order>,
    rows: usize,
) -> Option<Operand> {
    if cx.precision() != Precision::Bf16 || !rows.is_multiple_of(PAIR) {
        return None;
    }
    let constant = fitting(cx, i)?;
    let narrow = Rc::new(Narrow { order, to: To::Pairs });
    Some(cx.weight_for(i, Weight::ordered(constant, narrow)))
}

/// The right factor of a product, and the kernel that reads it in fewer bits.
pub(super) struct Factor {
    weights: Operand,
    scales: Option<Operand>,
    kernel: &'static Product,
}

impl Factor {
    /// Input `i` of so many rows in the order of packed factors, where it is to stand in fewer bits and
    /// there is a kernel for them.
    pub fn of(
        cx: &mut Lower<'_>,
        i: usize,
        order: Rc<dyn Order>,
        panels: Option<Panels>,
        rows: usize,
    ) -> Option<Factor> {
        let kernel = match cx.precision() {
            Precision::Full => return None,
            Precision::Bf16 => {
                let weights = pairs(cx, i, order, rows)?;
                return Some(Factor { weights, scales: None, kernel: &GEMM_BF16 });
            }
            Precision::F16 => &GEMM_F16,
            Precision::Int8Weights => &GEMM_I8,
        };
        let stored = Stored::of(cx, i, order, panels)?;
        Some(Factor { weights: stored.weights.clone(), scales: stored.scales(), kernel })
    }

    /// Calls the product of input 0, this as the right factor, and the addend that input 2 is.
    pub fn multiply(self, cx: &mut Lower<'_>, geometry: geometry::Gemm, f: Activation) -> Result {
        let geometry = geometry::Gemm { b: geometry::Layout::Packed, ..geometry };
        let scratch = geometry.narrow_scratch(&|dim| cx.most(dim));
        let mut inputs: Vec<Arg> = vec![cx.input(0)?.into(), self.weights.into()];
        inputs.extend(self.scales.map(Arg::from));
        inputs.push(Arg::Optional(cx.optional(2)?));
        let outputs = vec![cx.output(0)?.into(), cx.scratch(DType::F32, scratch).into()];
        cx.call_on(self.kernel, DType::F32, inputs, outputs, (geometry, f))
    }
}

/// Input `i` in the order of ONNX, in fewer bits, where it is to stand so: each index along its first
/// axis is a channel.
pub(super) fn rows(cx: &mut Lower<'_>, i: usize) -> Option<Stored> {
    let constant = cx.constant(i)?;
    let rows = count(constant.shape.get(1..)?);
    let order = Rc::new(Plain { elements: constant.len() });
    Stored::of(cx, i, order, Some(Panels::plain(rows)))
}

/// The same, widened.
pub(super) fn plain(cx: &mut Lower<'_>, i: usize) -> Option<Operand> {
    rows(cx, i).map(|stored| stored.widened(cx))
}

/// The order of ONNX.
struct Plain {
    elements: usize,
}

impl Order for Plain {
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

/// What the numbers become.
enum To {
    Bf16,
    /// Two rows of a panel as one of pairs, the first in the lower bits.
    Pairs,
    F16,
    Bytes(Scales),
}

/// The factors of bytes.
struct Scales {
    factors: Vec<f32>,
    /// Where each piece starts.
    starts: Vec<usize>,
    panels: Panels,
}

/// Another order, and fewer bits.
struct Narrow {
    order: Rc<dyn Order>,
    to: To,
}

impl Order for Narrow {
    fn elements(&self) -> usize {
        match self.to {
            To::Pairs => self.order.elements() / PAIR,
            To::Bf16 | To::F16 | To::Bytes(_) => self.order.elements(),
        }
    }

    fn dtype(&self, _: DType) -> DType {
        match self.to {
            To::Pairs => DType::U32,
            To::Bf16 | To::F16 => DType::U16,
            To::Bytes(_) => DType::I8,
        }
    }

    fn pieces(&self) -> usize {
        self.order.pieces()
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        let piece = self.order.piece(i, constant);
        let bytes: Vec<u8> = match &self.to {
            To::Pairs => paired(&floats(&piece).map(bf16::from_f32).collect::<Vec<_>>()),
            To::Bf16 => floats(&piece).flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
            To::F16 => floats(&piece).flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
            To::Bytes(scales) => scales.bytes(i, &piece, self.order.elements()),
        };
        let len = match self.to {
            To::Pairs => piece.len() / PAIR,
            To::Bf16 | To::F16 | To::Bytes(_) => piece.len(),
        };
        Tensor::from_raw(self.dtype(DType::F32), vec![len], bytes.into())
    }
}

/// The numbers that a factor has in a pair.
const PAIR: usize = 2;

/// Each two rows of packed numbers as one of pairs.
fn paired(numbers: &[bf16]) -> Vec<u8> {
    let rows = numbers.chunks(PAIR * BLOCK).map(|rows| rows.split_at(BLOCK));
    let columns = rows.flat_map(|(first, second)| first.iter().zip(second));
    columns
        .flat_map(|(first, second)| [first.to_le_bytes(), second.to_le_bytes()].concat())
        .collect()
}

/// The largest byte.
const MOST: f32 = 127.0;

impl Scales {
    /// Factors with which the largest number of each channel is the largest byte.
    fn of(order: &dyn Order, constant: &Tensor, panels: Panels) -> Scales {
        let len = order.elements();
        let mut largest = vec![0.0f32; panels.factors(len)];
        let (mut starts, mut start) = (Vec::new(), 0);
        for i in 0..order.pieces() {
            let piece = order.piece(i, constant);
            each(&piece, (start, len), panels, |x, factor| {
                largest[factor] = largest[factor].max(x.abs());
            });
            starts.push(start);
            start += piece.len();
        }
        // Of zeros, any factor makes zeros; one below the normal numbers would be lost.
        let factors = largest.into_iter().map(|x| (x / MOST).max(f32::MIN_POSITIVE)).collect();
        Scales { factors, starts, panels }
    }

    fn bytes(&self, i: usize, piece: &Tensor, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(piece.len());
        each(piece, (self.starts[i], len), self.panels, |x, factor| {
            let byte = (x / self.factors[factor]).round().clamp(-MOST, MOST) as i8;
            bytes.extend(byte.to_le_bytes());
        });
        bytes
    }
}

/// Shows each number of a piece that starts somewhere among `len`, with the number of its factor.
fn each(
    piece: &Tensor,
    (start, len): (usize, usize),
    panels: Panels,
    mut see: impl FnMut(f32, usize),
) {
    let (mut first, mut left, mut lane) = (0, 0, 0);
    for (at, x) in floats(piece).enumerate() {
        if left == 0 {
            (first, left) = panels.factor(start + at, len);
            lane = 0;
        }
        see(x, first + lane);
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

    /// A right factor as it is packed.
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
    fn bytes_are_within_half_a_step_of_their_column() {
        let (rows, cols) = (1900, 100);
        let number = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) * (1 + i % cols) as f32;
        let numbers: Vec<f32> = (0..rows * cols).map(number).collect();
        let constant = Tensor::from_floats(&numbers);
        let right = || Right(Packing { rows, cols, strides: [cols, 1] });
        let panels = right().panels().expect("its columns are channels");
        let order: Rc<dyn Order> = Rc::new(Packed(right()));
        assert!(order.pieces() > 1);
        let scales = Scales::of(&*order, &constant, panels);
        let factors = scales.factors.clone();
        let narrow = Narrow { order: order.clone(), to: To::Bytes(scales) };
        let weight = Weight::ordered(constant.clone(), Rc::new(narrow)).tensor();
        assert_eq!(weight.dtype, DType::I8);
        let bytes: Vec<i8> = weight.bytes().iter().map(|&x| x as i8).collect();
        let mut wide = vec![f32::NAN; bytes.len()];
        onnxc_runtime::kernels::weight_precision::widen_i8(&bytes, &factors, &mut wide, panels);
        let packed = Weight::ordered(constant, order).tensor();
        let mut wide = wide.into_iter();
        each(&packed, (0, bytes.len()), panels, |x, factor| {
            let y = wide.next().expect("as many are wide");
            assert!((x - y).abs() <= 0.501 * factors[factor], "{x} became {y}");
        });
    }
}
