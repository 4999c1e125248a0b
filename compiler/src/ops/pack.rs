//! Packs constant operands of matrix products and convolutions at compile time, into the order in
//! which the kernels read them. The order is the same for all processors.

use super::weight_precision::{self, ReducedOperand, ReducedWeight};
use crate::{
    array::{Array, Element},
    dtype::DType,
    ir::Lower,
    plan::{Formula, Operand, Optimize, Order, Weight, geometry},
    tensor::Tensor,
};
use onnxc_runtime::{
    Number,
    kernels::{conv, matmul, quantized, weight_precision::Panels},
};
use std::rc::Rc;

/// The approximate maximum number of elements of a piece: large enough to read a long run of each
/// row at once, small compared to the memory of any machine.
pub(super) const PIECE: usize = 1 << 22;

/// A packing of an operand, piece by piece.
pub(super) trait Pack: 'static {
    /// The number of packed elements.
    fn len<T>(&self) -> usize;
    /// The number of pieces.
    fn pieces<T>(&self) -> usize;
    /// Packs piece `i`.
    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T>;
    /// The layout of the channels, if they form panels.
    fn panels(&self) -> Option<Panels> {
        None
    }
}

/// The right operand of a matrix product. A piece is a few panels of columns of one block of rows.
pub(super) struct Right(pub matmul::Packing);

impl Right {
    fn rows_of_block(&self) -> usize {
        matmul::packed_b_depth(self.0.rows).max(1)
    }

    fn columns_of_piece<T>(&self) -> usize {
        // A single column is padded to a panel.
        let panel = matmul::packed_b_len::<T>(&matmul::Packing { rows: 1, cols: 1, ..self.0 });
        (PIECE / self.rows_of_block()).next_multiple_of(panel)
    }

    /// The number of pieces of a block of rows.
    fn pieces_of_block<T>(&self) -> usize {
        self.0.cols.div_ceil(self.columns_of_piece::<T>())
    }
}

impl Pack for Right {
    fn len<T>(&self) -> usize {
        matmul::packed_b_len::<T>(&self.0)
    }

    fn pieces<T>(&self) -> usize {
        self.0.rows.div_ceil(self.rows_of_block()) * self.pieces_of_block::<T>()
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let pieces = self.pieces_of_block::<T>();
        let row = i / pieces * self.rows_of_block();
        let col = i % pieces * self.columns_of_piece::<T>();
        let rows = (self.0.rows - row).min(self.rows_of_block());
        let cols = (self.0.cols - col).min(self.columns_of_piece::<T>());
        let piece = matmul::Packing { rows, cols, ..self.0 };
        let mut to = vec![T::ZERO; matmul::packed_b_len::<T>(&piece)];
        let [down, right] = self.0.strides;
        let from = from.get(row * down + col * right..).unwrap_or_default();
        matmul::pack_b(from, &mut to, piece);
        to
    }

    fn panels(&self) -> Option<Panels> {
        Some(Panels::right(self.0.rows))
    }
}

/// The weights of a convolution. A piece is a few filters of a group.
impl Pack for geometry::Conv {
    fn len<T>(&self) -> usize {
        with_numbers(self, |conv| conv::packed_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        with_numbers(self, |conv| conv.groups * conv.filters.div_ceil(filters_of_piece(&conv)))
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        with_numbers(self, |conv| {
            let most = filters_of_piece(&conv);
            let pieces = conv.filters.div_ceil(most);
            let (group, first) = (i / pieces, i % pieces * most);
            let filters = (conv.filters - first).min(most);
            let depth = from.len() / (conv.groups * conv.filters);
            let from = &from[(group * conv.filters + first) * depth..][..filters * depth];
            let piece = conv::Conv { groups: 1, filters, ..conv };
            let mut to = vec![T::ZERO; conv::packed_weights_len(&piece)];
            conv::pack_weights(from, &mut to, &piece);
            to
        })
    }

    fn panels(&self) -> Option<Panels> {
        Some(Panels::left(with_numbers(self, |conv| depth(&conv))))
    }
}

fn filters_of_piece(conv: &conv::Conv<'_>) -> usize {
    let panel = conv::Conv { groups: 1, filters: 1, ..*conv };
    let panels = PIECE / conv::packed_weights_len(&panel).max(1);
    let rows = conv::packed_weights_len(&panel) / depth(conv).max(1);
    panels.max(1) * rows.max(1)
}

fn depth(conv: &conv::Conv<'_>) -> usize {
    conv.channels * conv.kernel.iter().product::<usize>()
}

/// The weights of a transposed convolution. A piece is a group.
impl Pack for geometry::ConvTranspose {
    fn len<T>(&self) -> usize {
        with_numbers(self, |conv| conv::packed_transpose_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        with_numbers(self, |conv| conv.groups)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        with_numbers(self, |conv| {
            let group = from.len() / conv.groups;
            let piece = conv::ConvTranspose { groups: 1, ..conv };
            let mut to = vec![T::ZERO; conv::packed_transpose_weights_len(&piece)];
            conv::pack_transpose_weights(&from[i * group..][..group], &mut to, &piece);
            to
        })
    }

    fn panels(&self) -> Option<Panels> {
        Some(Panels::left(with_numbers(self, |conv| conv.channels)))
    }
}

/// The weights of an 8-bit convolution. A piece is a few panels of filters of a group.
pub(super) struct ByteFilters(pub geometry::Conv);

/// The number of filters of a piece of an 8-bit convolution: a multiple of the panel.
fn byte_filters_of_piece(conv: &conv::Conv<'_>) -> usize {
    const PANEL: usize = 12;
    let one = conv::Conv { groups: 1, filters: 1, ..*conv };
    (PIECE / quantized::packed_weights_len(&one).max(1)).next_multiple_of(PANEL).max(PANEL)
}

impl Pack for ByteFilters {
    fn len<T>(&self) -> usize {
        with_numbers(&self.0, |conv| quantized::packed_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        with_numbers(&self.0, |conv| {
            conv.groups * conv.filters.div_ceil(byte_filters_of_piece(&conv))
        })
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        with_numbers(&self.0, |conv| {
            let most = byte_filters_of_piece(&conv);
            let pieces = conv.filters.div_ceil(most);
            let (group, first) = (i / pieces, i % pieces * most);
            let filters = (conv.filters - first).min(most);
            let depth = from.len() / (conv.groups * conv.filters);
            let from = &from[(group * conv.filters + first) * depth..][..filters * depth];
            let piece = conv::Conv { groups: 1, filters, ..conv };
            let mut to = vec![T::ZERO; quantized::packed_weights_len(&piece)];
            quantized::pack_weights(from, &mut to, &piece);
            to
        })
    }
}

/// The right operand of an 8-bit matrix product. A piece is a few panels of columns.
pub(super) struct ByteColumns {
    /// The sizes of the product.
    pub product: quantized::Product,
    /// Row stride and column stride, in elements.
    pub strides: [usize; 2],
}

impl ByteColumns {
    fn columns_of_piece(&self) -> usize {
        const PANEL: usize = 64;
        let depth = quantized::packed_columns_depth(self.product.k).max(1);
        (PIECE / depth).next_multiple_of(PANEL).max(PANEL)
    }
}

impl Pack for ByteColumns {
    fn len<T>(&self) -> usize {
        quantized::packed_columns_len(&self.product)
    }

    fn pieces<T>(&self) -> usize {
        self.product.n.div_ceil(self.columns_of_piece())
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let first = i * self.columns_of_piece();
        let n = (self.product.n - first).min(self.columns_of_piece());
        let piece = quantized::Product { n, ..self.product };
        let mut to = vec![T::ZERO; quantized::packed_columns_len(&piece)];
        let from = from.get(first * self.strides[1]..).unwrap_or_default();
        quantized::pack_columns(from, &mut to, &piece, self.strides);
        to
    }
}

/// The right operand of a matrix product in column-major order. A piece is some columns.
pub(super) struct Transposed(pub matmul::Packing);

impl Transposed {
    fn columns_of_piece(&self) -> usize {
        (PIECE / self.0.rows.max(1)).max(1)
    }
}

impl Pack for Transposed {
    fn len<T>(&self) -> usize {
        self.0.rows * self.0.cols
    }

    fn pieces<T>(&self) -> usize {
        self.0.cols.div_ceil(self.columns_of_piece())
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let [down, right] = self.0.strides;
        let first = i * self.columns_of_piece();
        let columns = first..(first + self.columns_of_piece()).min(self.0.cols);
        let column = |j| (0..self.0.rows).map(move |row| from[row * down + j * right]);
        columns.flat_map(column).collect()
    }
}

/// Calls `f` with the sizes of the geometry as numbers. The sizes that `f` reads must be fixed; all
/// others are 0.
pub(super) fn with_numbers<F: Formula, R>(geometry: &F, f: impl Fn(F::Numbers<'_>) -> R) -> R {
    let mut result = None;
    geometry.with(&|_| 0, &mut |numbers| result = Some(f(numbers)));
    result.expect("`Formula::with` calls its function once")
}

/// The packed order of elements of one type.
struct Packed<P> {
    packing: P,
    dtype: DType,
}

impl<P: Pack> Order for Packed<P> {
    fn elements(&self) -> usize {
        match self.dtype {
            DType::F64 => self.packing.len::<f64>(),
            DType::I8 => self.packing.len::<i8>(),
            _ => self.packing.len::<f32>(),
        }
    }

    fn pieces(&self) -> usize {
        match self.dtype {
            DType::F64 => self.packing.pieces::<f64>(),
            DType::I8 => self.packing.pieces::<i8>(),
            _ => self.packing.pieces::<f32>(),
        }
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        match self.dtype {
            DType::F64 => piece::<f64>(&self.packing, i, constant),
            DType::I8 => piece::<i8>(&self.packing, i, constant),
            _ => piece::<f32>(&self.packing, i, constant),
        }
    }
}

fn piece<T: Element + Number + bytemuck::Pod>(
    packing: &impl Pack,
    i: usize,
    from: &Tensor,
) -> Tensor {
    let packed = match from.as_slice::<T>() {
        Some(elements) => packing.pack(i, elements),
        None => {
            let copy = Array::from_tensor(from);
            packing.pack(i, T::of(&copy).expect("the elements are of the tensor's type"))
        }
    };
    let len = packed.len();
    T::array(packed).into_tensor(vec![len])
}

/// Packs input `i` if it is a non-empty constant of `float` or `double` and the model is optimized
/// for speed. With a reduced weight precision, the call widens the stored weight into scratch.
pub(super) fn pack_constant(cx: &mut Lower<'_>, i: usize, packing: impl Pack) -> Option<Operand> {
    if cx.optimize() == Optimize::Size {
        return None;
    }
    let constant = cx.constant(i)?;
    if !matches!(constant.dtype, DType::F32 | DType::F64) || constant.is_empty() {
        return None;
    }
    let panels = packing.panels();
    let order: Rc<dyn Order> = Rc::new(Packed { packing, dtype: constant.dtype });
    match ReducedWeight::store(cx, i, order.clone(), panels) {
        Some(stored) => Some(stored.widen_all(cx)),
        None => Some(cx.weight_for(i, Weight::ordered(constant.clone(), order))),
    }
}

/// Packs input `i` as pairs of `bfloat16` numbers of two consecutive rows, if it is a constant and
/// the weight precision is `bf16`. `rows` is the number of rows per panel.
pub(super) fn pack_bf16_pairs(
    cx: &mut Lower<'_>,
    i: usize,
    packing: impl Pack,
    rows: usize,
) -> Option<Operand> {
    weight_precision::store_bf16_pairs(cx, i, Rc::new(Packed { packing, dtype: DType::F32 }), rows)
}

/// Packs input `i`, a right operand, with reduced weight precision if it is a constant and the
/// options ask for it.
pub(super) fn pack_reduced(cx: &mut Lower<'_>, i: usize, packing: Right) -> Option<ReducedOperand> {
    let (panels, rows) = (packing.panels(), packing.0.rows);
    ReducedOperand::store(cx, i, Rc::new(Packed { packing, dtype: DType::F32 }), panels, rows)
}

/// Packs input `i` if it is a constant of `int8`. The 8-bit kernels only read packed weights.
pub(super) fn pack_bytes(cx: &mut Lower<'_>, i: usize, packing: impl Pack) -> Option<Operand> {
    let constant = cx.constant(i).filter(|constant| constant.dtype == DType::I8)?;
    let order = Packed { packing, dtype: constant.dtype };
    Some(cx.weight_for(i, Weight::ordered(constant.clone(), Rc::new(order))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iota(len: usize) -> Vec<f32> {
        (0..len).map(|i| i as f32).collect()
    }

    fn pieces(packing: &impl Pack, from: &[f32]) -> Vec<f32> {
        (0..packing.pieces::<f32>()).flat_map(|i| packing.pack(i, from)).collect()
    }

    #[test]
    fn pieces_of_a_right_operand_concatenate_to_the_packed_operand() {
        let (rows, cols) = (1613, 8_013);
        for strides in [[cols, 1], [1, rows]] {
            let packing = matmul::Packing { rows, cols, strides };
            let from = iota(rows * cols);
            let mut whole = vec![0.0; matmul::packed_b_len::<f32>(&packing)];
            matmul::pack_b(&from, &mut whole, packing);
            let packing = Right(packing);
            assert!(packing.rows_of_block() < rows && packing.pieces_of_block::<f32>() > 1);
            assert_eq!(packing.len::<f32>(), whole.len());
            assert!(pieces(&packing, &from) == whole);
        }
    }

    #[test]
    fn pieces_of_a_transposed_operand_are_its_columns() {
        let (rows, cols) = (1021, 5003);
        let packing = Transposed(matmul::Packing { rows, cols, strides: [cols, 1] });
        let from = iota(rows * cols);
        let columns = (0..cols).flat_map(|j| from[j..].iter().step_by(cols));
        assert!(packing.pieces::<f32>() > 1);
        assert!(pieces(&packing, &from).iter().eq(columns));
    }

    #[test]
    fn pieces_of_byte_columns_concatenate_to_the_packed_operand() {
        let product = quantized::Product { m: 0, n: 1700, k: 4999 };
        let from: Vec<f32> = iota(product.n * product.k);
        for strides in [[product.n, 1], [1, product.k]] {
            let packing = ByteColumns { product, strides };
            let mut whole = vec![0.0; packing.len::<f32>()];
            quantized::pack_columns(&from, &mut whole, &product, strides);
            assert!(packing.pieces::<f32>() > 1 && pieces(&packing, &from) == whole);
        }
    }

    #[test]
    fn pieces_of_a_convolution_concatenate_to_its_packed_weights() {
        let (groups, filters, channels) = (2, 1021, 1030);
        let conv = conv::Conv {
            batch: 1,
            groups,
            channels,
            filters,
            size: &[9, 9],
            out: &[7, 7],
            kernel: &[3, 3],
            strides: &[1, 1],
            dilations: &[1, 1],
            pads: &[0, 0],
            weights: conv::WeightLayout::Packed,
        };
        let from = iota(groups * filters * channels * 9);
        let mut whole = vec![0.0; conv::packed_weights_len(&conv)];
        conv::pack_weights(&from, &mut whole, &conv);
        let sizes = |sizes: &[usize]| sizes.iter().map(|&size| size.into()).collect();
        let packing = geometry::Conv {
            batch: 1.into(),
            groups,
            channels: channels.into(),
            filters: filters.into(),
            size: sizes(conv.size),
            out: sizes(conv.out),
            kernel: sizes(conv.kernel),
            strides: vec![1, 1],
            dilations: vec![1, 1],
            pads: sizes(conv.pads),
            weights: conv::WeightLayout::Packed,
        };
        assert!(packing.pieces::<f32>() > 2);
        assert!(pieces(&packing, &from) == whole);
        let mut whole = vec![0.0; quantized::packed_weights_len(&conv)];
        quantized::pack_weights(&from, &mut whole, &conv);
        let packing = ByteFilters(packing);
        assert!(packing.pieces::<f32>() > 2 && pieces(&packing, &from) == whole);
    }
}
