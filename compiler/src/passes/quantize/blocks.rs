//! Replaces a product with constant block-quantized weights by one that reads their codes.

use super::super::fuse::{Replaced, tensor};
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        blockwise::{Blocks, Codes, DequantizeBlocks, MatMulBlocks},
        cast::{Cast, CastMode},
        matmul::MatMul,
        quantize::DequantizeLinear,
        transpose::Transpose,
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// The alignment of blocks that the kernels need: the codes of a word.
const ALIGN: usize = 16;

/// Replaces a `MatMul` whose right operand is dequantized block by block from constants.
pub fn fuse_blocks(site: &mut Site<'_>, node: &Node) -> Replaced {
    let product = node.op.downcast::<MatMul>()?;
    let [a, b]: [ValueId; 2] = node.inputs()?;
    if product.fused || tensor(site.graph, a)?.rank() == 0 {
        return None;
    }
    let Weights { blocks, codes, scales, zeros } = Weights::of(site, b)?;
    let dtype = tensor(site.graph, a)?.dtype;
    let mut inputs = vec![Some(cast(site, node, a, DType::F32)?)];
    for (name, tensor) in [("codes", codes), ("scales", scales)] {
        inputs.push(Some(site.graph.constant(name, tensor)));
    }
    inputs.extend(zeros.map(|zeros| Some(site.graph.constant("zero_points", zeros))));
    let op = MatMulBlocks { blocks, activation: Activation::Identity };
    if dtype == DType::F32 {
        return site.replace(node, Rc::new(op), inputs);
    }
    let y = site.before(node, Rc::new(op), inputs)?;
    site.replace(node, Rc::new(Cast { to: dtype, mode: CastMode::DEFAULT }), vec![Some(y)])
}

/// Returns a value converted to `dtype`.
fn cast(site: &mut Site<'_>, node: &Node, x: ValueId, dtype: DType) -> Option<ValueId> {
    if tensor(site.graph, x)?.dtype == dtype {
        return Some(x);
    }
    site.before(node, Rc::new(Cast { to: dtype, mode: CastMode::DEFAULT }), vec![Some(x)])
}

/// The weights of a product, as [`MatMulBlocks`] takes them.
struct Weights {
    blocks: Blocks,
    codes: Tensor,
    scales: Tensor,
    zeros: Option<Tensor>,
}

impl Weights {
    /// Returns the weights that `value`, the right operand, is dequantized from.
    fn of(site: &Site<'_>, value: ValueId) -> Option<Weights> {
        let (value, transposed) = match undo_transpose(site, value) {
            Some(before) => (before, true),
            None => (value, false),
        };
        let node = site.producer(value)?;
        if let Some(DequantizeBlocks(blocks)) = node.op.downcast::<DequantizeBlocks>() {
            return transposed.then(|| Weights::of_blocks(site.graph, node, *blocks)).flatten();
        }
        let op = node.op.downcast::<DequantizeLinear>()?;
        let dtype = tensor(site.graph, value)?.dtype;
        let scale = site.graph[node.input(1)?].constant.as_ref()?;
        let is_alike = op.dtype.is_none_or(|dtype| dtype == scale.dtype) && dtype == scale.dtype;
        is_alike.then(|| Linear::of(site.graph, node, op, transposed)?.weights()).flatten()
    }

    /// Returns the weights that `DequantizeBlocks` decodes.
    fn of_blocks(graph: &Graph, node: &Node, blocks: Blocks) -> Option<Weights> {
        let constant = |i: usize| graph[node.input(i)?].constant.clone();
        let is_aligned = match blocks.codes {
            Codes::Integers(_) => blocks.block.is_multiple_of(ALIGN),
            Codes::Fp4 | Codes::Nf4 => blocks.k.is_multiple_of(blocks.block),
        };
        if !is_aligned || node.input(3).is_some() {
            return None;
        }
        let zeros = match node.input(2) {
            Some(_) => Some(unpack_zeros(constant(2)?, &blocks)?),
            None => None,
        };
        Some(Weights { blocks, codes: constant(0)?, scales: numbers(&constant(1)?)?, zeros })
    }
}

/// Returns the matrix that `value` is the transpose of.
fn undo_transpose(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let node = site.producer(value)?;
    let perm = node.op.downcast::<Transpose>()?.perm.as_deref();
    let is_matrix = tensor(site.graph, value)?.rank() == 2;
    let exchanges = perm.is_none_or(|perm| matches!(perm, [1 | -1, 0 | -2]));
    if is_matrix && exchanges { node.input(0) } else { None }
}

/// Returns a constant as `float`, if it has a floating-point type that `float` includes.
fn numbers(constant: &Tensor) -> Option<Tensor> {
    match constant.dtype {
        DType::F32 => Some(constant.clone()),
        DType::F16 | DType::BF16 => {
            let numbers: Vec<f32> = constant.floats()?.into_iter().map(|x| x as f32).collect();
            Some(Tensor::from_floats(&numbers))
        }
        _ => None,
    }
}

/// Returns zero points as numbers, or with a code in each byte.
fn unpack_zeros(zeros: Tensor, blocks: &Blocks) -> Option<Tensor> {
    if zeros.dtype != DType::U8 {
        return numbers(&zeros);
    }
    let bits = blocks.codes.bits();
    let mask = ((1u32 << bits) - 1) as u8;
    let columns = zeros.bytes().chunks_exact(blocks.zero_bytes() / blocks.n);
    let codes = columns.flat_map(|column| {
        let code = move |i: usize| column[i * bits / 8] >> (i * bits % 8) & mask;
        (0..blocks.per_column()).map(code)
    });
    Some(bytes(codes.collect()))
}

fn bytes(bytes: Vec<u8>) -> Tensor {
    Tensor::from_raw(DType::U8, vec![bytes.len()], bytes.into())
}

/// The operands of a `DequantizeLinear` whose result is a matrix of weights.
struct Linear<'g> {
    blocks: Blocks,
    x: &'g Tensor,
    scales: &'g Tensor,
    zeros: Option<&'g Tensor>,
    /// The difference of the codes of `MatMulNBits`, which are unsigned, and of these.
    offset: u8,
    /// Whether the matrix is the transpose of the right operand.
    transposed: bool,
}

impl<'g> Linear<'g> {
    fn of(
        graph: &'g Graph,
        node: &Node,
        op: &DequantizeLinear,
        transposed: bool,
    ) -> Option<Linear<'g>> {
        let constant = |i: usize| graph[node.input(i)?].constant.as_ref();
        let x = constant(0)?;
        let (bits, offset) = match x.dtype {
            DType::U2 => (2, 0),
            DType::I2 => (2, 2),
            DType::U4 => (4, 0),
            DType::I4 => (4, 8),
            DType::U8 => (8, 0),
            DType::I8 => (8, 128),
            _ => return None,
        };
        let &[rows, columns] = x.shape.as_slice() else { return None };
        let ([n, k], axis) = if transposed { ([rows, columns], 1) } else { ([columns, rows], 0) };
        let granularity = &op.granularity;
        let block = usize::try_from(granularity.block_size).ok()?;
        let along = if granularity.axis < 0 { granularity.axis + 2 } else { granularity.axis };
        let is_aligned = block > 0 && block.is_multiple_of(ALIGN);
        if along != axis || !is_aligned || n == 0 || k == 0 {
            return None;
        }
        let zeros = node.input(2).map(|_| constant(2));
        if zeros.is_some_and(|zeros| zeros.is_none()) {
            return None;
        }
        let blocks = Blocks { codes: Codes::Integers(bits), n, k, block };
        let (scales, zeros) = (constant(1)?, zeros.flatten());
        let is_each = scales.len() == blocks.scales();
        is_each.then_some(Linear { blocks, x, scales, zeros, offset, transposed })
    }

    /// Returns the index of the element in row `row` of `rows` and column `n`.
    fn index(&self, row: usize, rows: usize, n: usize) -> usize {
        if self.transposed { n * rows + row } else { row * self.blocks.n + n }
    }

    fn weights(&self) -> Option<Weights> {
        let Linear { blocks, offset, .. } = *self;
        let per_column = blocks.per_column();
        let each_block = || {
            (0..blocks.n).flat_map(|n| (0..per_column).map(move |b| self.index(b, per_column, n)))
        };
        let places: Vec<usize> = each_block().collect();
        let zeros = match (self.zeros, offset) {
            (Some(zeros), _) => {
                let mask = self.mask();
                let code = |i: usize| zeros.bytes()[i].wrapping_add(offset) & mask;
                Some(bytes(each_block().map(code).collect()))
            }
            (None, 0) => Some(bytes(vec![0; places.len()])),
            // The zero point 0 of signed integers is the default of `MatMulNBits`.
            (None, _) => None,
        };
        let scales = numbers(&self.scales.take(&places))?;
        Some(Weights { blocks, codes: bytes(self.codes()), scales, zeros })
    }

    fn mask(&self) -> u8 {
        ((1u32 << self.blocks.codes.bits()) - 1) as u8
    }

    /// Returns the codes in ONNX Runtime's layout.
    fn codes(&self) -> Vec<u8> {
        let Blocks { n, k, block, .. } = self.blocks;
        let (bits, mask, x) = (self.blocks.codes.bits(), self.mask(), self.x.bytes());
        let column = self.blocks.per_column() * block * bits / 8;
        let mut codes = vec![0; n * column];
        for (n, column) in codes.chunks_exact_mut(column).enumerate() {
            for row in 0..k {
                let code = x[self.index(row, k, n)].wrapping_add(self.offset) & mask;
                column[row * bits / 8] |= code << (row * bits % 8);
            }
        }
        codes
    }
}
