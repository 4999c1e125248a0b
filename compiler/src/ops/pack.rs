//! Constant factors of products, packed when the model is compiled into the order in which kernels
//! read them. All processors read the same order.

use super::weight_precision::{self, Factor, Stored};
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

/// A piece has at most about so many elements: enough for a long stretch of each row to be read at
/// once, and few beside the memory of any machine.
pub(super) const PIECE: usize = 1 << 22;

/// How a factor is packed, piece by piece.
pub(super) trait Pack: 'static {
    /// How many elements that gives.
    fn len<T>(&self) -> usize;
    /// In how many pieces.
    fn pieces<T>(&self) -> usize;
    /// Packs piece `i`.
    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T>;
    /// Where the channels are, where that can be said.
    fn panels(&self) -> Option<Panels> {
        None
    }
}

/// The right factor of a product of matrices. A piece is a few panels of columns of one block of
/// rows.
pub(super) struct Right(pub matmul::Packing);

impl Right {
    fn rows_of_block(&self) -> usize {
        matmul::packed_b_depth(self.0.rows).max(1)
    }

    fn columns_of_piece<T>(&self) -> usize {
        // What one column is padded to.
        let panel = matmul::packed_b_len::<T>(&matmul::Packing { rows: 1, cols: 1, ..self.0 });
        (PIECE / self.rows_of_block()).next_multiple_of(panel)
    }

    /// In how many pieces a block is packed.
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
        numbers(self, |conv| conv::packed_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        numbers(self, |conv| conv.groups * conv.filters.div_ceil(filters_of_piece(&conv)))
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        numbers(self, |conv| {
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
        Some(Panels::left(numbers(self, |conv| depth(&conv))))
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
        numbers(self, |conv| conv::packed_transpose_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        numbers(self, |conv| conv.groups)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        numbers(self, |conv| {
            let group = from.len() / conv.groups;
            let piece = conv::ConvTranspose { groups: 1, ..conv };
            let mut to = vec![T::ZERO; conv::packed_transpose_weights_len(&piece)];
            conv::pack_transpose_weights(&from[i * group..][..group], &mut to, &piece);
            to
        })
    }

    fn panels(&self) -> Option<Panels> {
        Some(Panels::left(numbers(self, |conv| conv.channels)))
    }
}

/// The weights of a convolution of bytes. A piece is a few panels of filters of a group.
pub(super) struct Filters(pub geometry::Conv);

/// How many filters of a convolution of bytes make a piece: whole panels.
fn byte_filters_of_piece(conv: &conv::Conv<'_>) -> usize {
    const PANEL: usize = 12;
    let one = conv::Conv { groups: 1, filters: 1, ..*conv };
    (PIECE / quantized::packed_weights_len(&one).max(1)).next_multiple_of(PANEL).max(PANEL)
}

impl Pack for Filters {
    fn len<T>(&self) -> usize {
        numbers(&self.0, |conv| quantized::packed_weights_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        numbers(&self.0, |conv| conv.groups * conv.filters.div_ceil(byte_filters_of_piece(&conv)))
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        numbers(&self.0, |conv| {
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

/// The right factor of a product of bytes. A piece is a few panels of columns.
pub(super) struct Columns {
    /// The sizes.
    pub product: quantized::Product,
    /// How far one row and one column start from the next.
    pub strides: [usize; 2],
}

impl Columns {
    fn columns_of_piece(&self) -> usize {
        const PANEL: usize = 64;
        let depth = quantized::packed_columns_depth(self.product.k).max(1);
        (PIECE / depth).next_multiple_of(PANEL).max(PANEL)
    }
}

impl Pack for Columns {
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

/// The right factor of a product, its columns one after the other. A piece is some columns.
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

/// What `then` makes of the geometry, whose sizes that matter are known.
pub(super) fn numbers<F: Formula, R>(geometry: &F, then: impl Fn(F::Numbers<'_>) -> R) -> R {
    let mut made = None;
    geometry.with(&|_| 0, &mut |numbers| made = Some(then(numbers)));
    made.expect("a formula hands over its numbers")
}

/// Elements of one type in a packed order.
struct Packed<P> {
    how: P,
    dtype: DType,
}

impl<P: Pack> Order for Packed<P> {
    fn elements(&self) -> usize {
        match self.dtype {
            DType::F64 => self.how.len::<f64>(),
            DType::I8 => self.how.len::<i8>(),
            _ => self.how.len::<f32>(),
        }
    }

    fn pieces(&self) -> usize {
        match self.dtype {
            DType::F64 => self.how.pieces::<f64>(),
            DType::I8 => self.how.pieces::<i8>(),
            _ => self.how.pieces::<f32>(),
        }
    }

    fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
        match self.dtype {
            DType::F64 => piece::<f64>(&self.how, i, constant),
            DType::I8 => piece::<i8>(&self.how, i, constant),
            _ => piece::<f32>(&self.how, i, constant),
        }
    }
}

fn piece<T: Element + Number + bytemuck::Pod>(how: &impl Pack, i: usize, from: &Tensor) -> Tensor {
    let packed = match from.as_slice::<T>() {
        Some(elements) => how.pack(i, elements),
        None => {
            let copy = Array::from_tensor(from);
            how.pack(i, T::of(&copy).expect("the elements are of the tensor's type"))
        }
    };
    let len = packed.len();
    T::array(packed).into_tensor(vec![len])
}

/// Input `i`, packed as its kernel reads it, where it is a constant of a type that kernels take so,
/// and space matters less than time.
pub(super) fn packed(cx: &mut Lower<'_>, i: usize, how: impl Pack) -> Option<Operand> {
    if cx.optimize() == Optimize::Size {
        return None;
    }
    let constant = cx.constant(i)?;
    if !matches!(constant.dtype, DType::F32 | DType::F64) || constant.is_empty() {
        return None;
    }
    let panels = how.panels();
    let order: Rc<dyn Order> = Rc::new(Packed { how, dtype: constant.dtype });
    match Stored::of(cx, i, order.clone(), panels) {
        Some(stored) => Some(stored.widened(cx)),
        None => Some(cx.weight_for(i, Weight::ordered(constant.clone(), order))),
    }
}

/// Input `i` packed, with two of so many rows as one of pairs of `bfloat16` numbers, where it is a constant
/// that is to stand so.
pub(super) fn paired(cx: &mut Lower<'_>, i: usize, how: impl Pack, rows: usize) -> Option<Operand> {
    weight_precision::pairs(cx, i, Rc::new(Packed { how, dtype: DType::F32 }), rows)
}

/// Input `i` as a right factor in fewer bits, where it is a constant that is to stand so.
pub(super) fn narrow(cx: &mut Lower<'_>, i: usize, how: Right) -> Option<Factor> {
    let (panels, rows) = (how.panels(), how.0.rows);
    Factor::of(cx, i, Rc::new(Packed { how, dtype: DType::F32 }), panels, rows)
}

/// Input `i`, constant bytes, packed as its kernel reads it. Such kernels have no other order.
pub(super) fn packed_bytes(cx: &mut Lower<'_>, i: usize, how: impl Pack) -> Option<Operand> {
    let constant = cx.constant(i).filter(|constant| constant.dtype == DType::I8)?;
    let order = Packed { how, dtype: constant.dtype };
    Some(cx.weight_for(i, Weight::ordered(constant.clone(), Rc::new(order))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(len: usize) -> Vec<f32> {
        (0..len).map(|i| i as f32).collect()
    }

    fn pieces(how: &impl Pack, from: &[f32]) -> Vec<f32> {
        (0..how.pieces::<f32>()).flat_map(|i| how.pack(i, from)).collect()
    }

    #[test]
    fn the_pieces_of_a_factor_are_the_packed_factor() {
        let (rows, cols) = (1613, 8_013);
        for strides in [[cols, 1], [1, rows]] {
            let packing = matmul::Packing { rows, cols, strides };
            let from = counted(rows * cols);
            let mut whole = vec![0.0; matmul::packed_b_len::<f32>(&packing)];
            matmul::pack_b(&from, &mut whole, packing);
            let how = Right(packing);
            assert!(how.rows_of_block() < rows && how.pieces_of_block::<f32>() > 1);
            assert_eq!(how.len::<f32>(), whole.len());
            assert!(pieces(&how, &from) == whole);
        }
    }

    #[test]
    fn the_pieces_of_a_transposed_factor_are_its_columns() {
        let (rows, cols) = (1021, 5003);
        let how = Transposed(matmul::Packing { rows, cols, strides: [cols, 1] });
        let from = counted(rows * cols);
        let columns = (0..cols).flat_map(|j| from[j..].iter().step_by(cols));
        assert!(how.pieces::<f32>() > 1);
        assert!(pieces(&how, &from).iter().eq(columns));
    }

    #[test]
    fn the_pieces_of_byte_columns_are_the_packed_factor() {
        let product = quantized::Product { m: 0, n: 1700, k: 4999 };
        let from: Vec<f32> = counted(product.n * product.k);
        for strides in [[product.n, 1], [1, product.k]] {
            let how = Columns { product, strides };
            let mut whole = vec![0.0; how.len::<f32>()];
            quantized::pack_columns(&from, &mut whole, &product, strides);
            assert!(how.pieces::<f32>() > 1 && pieces(&how, &from) == whole);
        }
    }

    #[test]
    fn the_pieces_of_a_convolution_are_its_packed_weights() {
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
        let from = counted(groups * filters * channels * 9);
        let mut whole = vec![0.0; conv::packed_weights_len(&conv)];
        conv::pack_weights(&from, &mut whole, &conv);
        let sizes = |sizes: &[usize]| sizes.iter().map(|&size| size.into()).collect();
        let how = geometry::Conv {
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
        assert!(how.pieces::<f32>() > 2);
        assert!(pieces(&how, &from) == whole);
        let mut whole = vec![0.0; quantized::packed_weights_len(&conv)];
        quantized::pack_weights(&from, &mut whole, &conv);
        let how = Filters(how);
        assert!(how.pieces::<f32>() > 2 && pieces(&how, &from) == whole);
    }
}
