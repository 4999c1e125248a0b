//! Operators with block-quantized weights. The pass `quantize` replaces products with constant
//! weights by a kernel that reads the codes.

use super::super::{
    Entry,
    binary::ADD,
    blockwise::{Arithmetic, Blocks, Codes, DequantizeBlocks, read_size},
    matmul::MatMul,
    microsoft_function, microsoft_nodes,
    slice::Slice,
    transpose::Transpose,
};
use crate::{
    diag::{Code, Diagnostic, Result, there_are},
    dtype::DType,
    ir::{Reader, ValueId},
    limits::Limit,
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;

pub const OPS: &[Entry] = &[
    microsoft_function("GatherBlockQuantized", gather),
    microsoft_nodes("MatMulBnb4", matmul_bnb4),
    microsoft_nodes("MatMulNBits", matmul_nbits),
];

/// Reads `block_size`, a power of two that is at least 16.
fn read_block(node: &mut Reader<'_>) -> Result<usize> {
    let block = read_size(node, "block_size")?;
    check_block(block)?;
    Ok(block)
}

fn check_block(block: usize) -> Result {
    if block.is_power_of_two() && block >= 16 {
        return Ok(());
    }
    let message = format!("`block_size` is {block}, but must be a power of two from 16 on");
    Err(Diagnostic::new(Code::BadAttribute, message))
}

/// Reads `bits`.
fn read_bits(node: &mut Reader<'_>) -> Result<usize> {
    match node.int("bits", 4)? {
        2 => Ok(2),
        4 => Ok(4),
        8 => Ok(8),
        bits => {
            let message = format!("`bits` is {bits}, but must be 2, 4 or 8");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

/// `y = a · bᵀ + bias`, where `b` has codes of 2, 4 or 8 bits.
fn matmul_nbits(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let prepacked = node.int("weight_prepacked", 0)?;
    if prepacked != 0 {
        let message =
            format!("`weight_prepacked` is {prepacked}: the weights are in a GPU's layout");
        return Err(Diagnostic::new(Code::Unsupported, message)
            .help("save the model with the weights in ONNX Runtime's portable layout"));
    }
    let (bits, block) = (read_bits(node)?, read_block(node)?);
    let [n, k] = [read_size(node, "N")?, read_size(node, "K")?];
    let arithmetic = read_arithmetic(node, bits, block)?;
    let blocks = Blocks { codes: Codes::Integers(bits), n, k, block, arithmetic };
    let mut inputs = vec![node.input(1)?, node.input(2)?];
    let groups = node.has(4).then(|| read_groups(node, k, block)).transpose()?;
    if node.has(3) {
        inputs.push(node.input(3)?);
    } else if groups.is_some() {
        inputs.push(default_zero_points(node, &blocks)?);
    }
    inputs.extend(groups);
    let y = multiply(node, &inputs, blocks, true)?;
    Ok(vec![if node.has(5) { node.add(&ADD, &[y, node.input(5)?], &[])? } else { y }])
}

/// Reads the block of each row, input 4. It may count the rows of a whole last block.
fn read_groups(node: &mut Reader<'_>, k: usize, block: usize) -> Result<ValueId> {
    let given = node.input(4)?;
    let count = node.ty(4).and_then(|ty| ty.as_tensor()?.shape.first()?.known());
    let as_int = |size: usize| i64::try_from(size).ok();
    let (rows, whole) = (as_int(k), k.checked_next_multiple_of(block).and_then(as_int));
    let Some(rows) = rows.filter(|_| count == whole && count != as_int(k)) else {
        return Ok(given);
    };
    let start = node.constant("first_row", Tensor::from_ints(&[0]));
    let end = node.constant("row_count", Tensor::from_ints(&[rows]));
    node.add(Slice, &[given, start, end], &[])
}

/// The `accuracy_level` of integer arithmetic.
const INT8_LEVEL: i64 = 4;

/// Reads the arithmetic of a product. It is that of ONNX Runtime, which multiplies integers where
/// it has a kernel for the blocks, the zero points are codes, and the rows are in order.
fn read_arithmetic(node: &mut Reader<'_>, bits: usize, block: usize) -> Result<Arithmetic> {
    let is_int8 = node.int("accuracy_level", 0)? == INT8_LEVEL;
    let sizes = if bits == 2 { 32..=128 } else { 16..=256 };
    let has_codes = !node.has(3) || node.dtype(3)? == DType::U8;
    let has_kernel = sizes.contains(&block) && has_codes && !node.has(4);
    Ok(if is_int8 && has_kernel { Arithmetic::Int8 } else { Arithmetic::Float })
}

/// Adds the zero points of weights that have none: half of the range of the codes.
fn default_zero_points(node: &mut Reader<'_>, blocks: &Blocks) -> Result<ValueId> {
    let bits = blocks.codes.bits();
    let codes = (0..8 / bits).fold(0, |byte, i| byte | 1u8 << ((i + 1) * bits - 1));
    let len = blocks.zero_bytes();
    node.budget().spend(Limit::ListElements, len, "default zero points")?;
    let points = Tensor::from_raw(DType::U8, vec![len], vec![codes; len].into());
    Ok(node.constant("zero_points", points))
}

/// Adds the nodes that multiply input 0 by the weights, transposed or not.
fn multiply(
    node: &mut Reader<'_>,
    weights: &[ValueId],
    blocks: Blocks,
    transposed: bool,
) -> Result<ValueId> {
    let mut b = node.add(DequantizeBlocks(blocks), weights, &[])?;
    if transposed {
        b = node.add(Transpose { perm: Some(vec![1, 0]) }, &[b], &[])?;
    }
    let product = MatMul { activation: Activation::Identity, fused: false };
    node.add(product, &[node.input(0)?, b], &[])
}

/// `y = a · bᵀ` or `y = a · b`, where `b` has codes of `bitsandbytes`.
fn matmul_bnb4(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    node.ignore("training_mode");
    let codes = match node.required_int("quant_type")? {
        0 => Codes::Fp4,
        1 => Codes::Nf4,
        kind => {
            let message = format!("`quant_type` is {kind}, but must be 0 (FP4) or 1 (NF4)");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
    };
    let block = read_block(node)?;
    let [n, k] = [read_size(node, "N")?, read_size(node, "K")?];
    let transposed = node.flag("transB", true)?;
    let weights = [node.input(1)?, node.input(2)?];
    let blocks = Blocks { codes, n, k, block, arithmetic: Arithmetic::Float };
    Ok(vec![multiply(node, &weights, blocks, transposed)?])
}

/// The attributes of `GatherBlockQuantized`, with axes counted from the front.
struct Gather {
    /// The number of bits of the codes that a byte holds; `None` if a code is an element.
    packed: Option<usize>,
    gather_axis: usize,
    quantize_axis: usize,
    block: usize,
}

impl Gather {
    fn read(node: &mut Reader<'_>) -> Result<Gather> {
        let bits = read_bits(node)?;
        let (dtype, rank) = (node.dtype(0)?, node.rank(0)?);
        let gather_axis = read_axis(node, "gather_axis", 0, rank)?;
        let quantize_axis = read_axis(node, "quantize_axis", 1, rank)?;
        let packed = (dtype == DType::U8).then_some(bits);
        if packed.is_some() && gather_axis != 0 {
            let message = format!("`gather_axis` is {gather_axis}, but must be 0 for uint8");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        if packed.is_some_and(|bits| bits < 8) && gather_axis == quantize_axis {
            let message = format!("`gather_axis` and `quantize_axis` are both {gather_axis}");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        let block = match node.int("block_size", 128)? {
            0 if dtype.is_float() => axis_size(node, quantize_axis)?,
            size => {
                let size = usize::try_from(size).unwrap_or(0);
                check_block(size)?;
                size
            }
        };
        Ok(Gather { packed, gather_axis, quantize_axis, block })
    }
}

fn read_axis(node: &mut Reader<'_>, name: &str, default: i64, rank: usize) -> Result<usize> {
    let axis = node.int(name, default)?;
    let front = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(front).ok().filter(|&axis| axis < rank).ok_or_else(|| {
        let message = format!("`{name}` is {axis}, but {}", there_are(rank, "axis"));
        Diagnostic::new(Code::BadAttribute, message)
    })
}

/// Returns the size of an axis of input 0, which must be known.
fn axis_size(node: &Reader<'_>, axis: usize) -> Result<usize> {
    let shape = node.ty(0).and_then(|ty| Some(&ty.as_tensor()?.shape));
    let size = shape.and_then(|shape| usize::try_from(shape.get(axis)?.known()?).ok());
    size.filter(|&size| size > 0).ok_or_else(|| {
        let message = format!("`block_size` is 0, but the size of axis {axis} is not known");
        Diagnostic::new(Code::UnknownShape, message)
    })
}

/// Gathers numbers. An index out of range gives zeros.
fn gather(node: &mut Reader<'_>) -> Result<String> {
    let gather = Gather::read(node)?;
    let (rank, indices, axis) = (node.rank(0)?, node.rank(1)?, gather.gather_axis);
    let numbers = if axis == gather.quantize_axis {
        gather.dequantize_all(node)
    } else {
        gather.dequantize_gathered(node)?
    };
    let inner: Vec<usize> = (indices..indices + rank - 1 - axis).collect();
    let mask = if inner.is_empty() {
        "mask = Identity (is_inside)".to_owned()
    } else {
        format!("inner = Constant <value_ints = {inner:?}> () mask = Unsqueeze (is_inside, inner)")
    };
    Ok(format!(
        "(data, indices, scales, zero_points) => (y) {{
            at = Cast <to = 7> (indices)
            sizes = Shape <start = {axis}, end = {}> (data)
            size = Squeeze (sizes)
            least = Neg (size)
            is_above = GreaterOrEqual (at, least)
            is_below = Less (at, size)
            is_inside = And (is_above, is_below)
            first = Sub (at, at)
            places = Where (is_inside, at, first)
            {numbers}
            {mask}
            zero_number = Constant <value_float = 0.0> ()
            zero = CastLike (zero_number, numbers)
            y = Where (mask, numbers, zero)
        }}",
        axis + 1
    ))
}

impl Gather {
    /// Writes the nodes that dequantize all data, and gather the numbers.
    fn dequantize_all(&self, node: &Reader<'_>) -> String {
        let Gather { gather_axis: axis, block, packed, .. } = *self;
        let (nodes, zeros) = match (packed, node.has(3)) {
            (_, true) => (String::new(), ", zero_points"),
            (Some(bits), false) => (default_zeros(bits, "scales"), ", zeros"),
            (None, false) => (String::new(), ""),
        };
        format!(
            "{nodes}
            all = DequantizeLinear <axis = {axis}, block_size = {block}> (data, scales{zeros})
            numbers = Gather <axis = {axis}> (all, places)"
        )
    }

    /// Writes the nodes that gather codes, scales and zero points, and dequantize them.
    fn dequantize_gathered(&self, node: &Reader<'_>) -> Result<String> {
        let Gather { gather_axis, block, packed, .. } = *self;
        let (zero_points, zeros) = match (packed, node.has(3)) {
            (Some(bits), true) => (gather_zeros(bits), ", zeros"),
            (Some(bits), false) => (default_zeros(bits, "s"), ", zeros"),
            (None, true) => {
                let nodes = format!("zeros = Gather <axis = {gather_axis}> (zero_points, places)");
                (nodes, ", zeros")
            }
            (None, false) => (String::new(), ""),
        };
        let codes = unpack(packed.unwrap_or(8), "gathered", "codes");
        let (scales, axis) = (self.gather_scales(node)?, self.axis_of_blocks(node)?);
        Ok(format!(
            "gathered = Gather <axis = {gather_axis}> (data, places)
            {codes}
            {scales}
            {zero_points}
            numbers = DequantizeLinear <axis = {axis}, block_size = {block}> (codes, s{zeros})"
        ))
    }

    /// Returns the axis of blocks after the indices replaced the axis that is gathered.
    fn axis_of_blocks(&self, node: &Reader<'_>) -> Result<usize> {
        let is_before = self.quantize_axis < self.gather_axis;
        let axis = self.quantize_axis;
        Ok(if is_before { axis } else { axis + node.rank(1)? - 1 })
    }

    /// Writes the nodes that gather the scales to `s`. Scales of size 1 along an axis are
    /// broadcast.
    fn gather_scales(&self, node: &Reader<'_>) -> Result<String> {
        let Gather { gather_axis, quantize_axis, .. } = *self;
        let scales = node.ty(2).and_then(|ty| Some(&ty.as_tensor()?.shape));
        let size = |axis: usize| scales.and_then(|shape| shape.get(axis)?.known());
        let from = if size(gather_axis) == Some(1) { "first" } else { "places" };
        let gathered = format!("s_own = Gather <axis = {gather_axis}> (scales, {from})");
        let mut others =
            (0..node.rank(0)?).filter(|axis| ![gather_axis, quantize_axis].contains(axis));
        if !others.any(|axis| size(axis) == Some(1)) {
            return Ok(format!("{gathered} s = Identity (s_own)"));
        }
        let axis = self.axis_of_blocks(node)?;
        let after = axis + 1;
        Ok(format!(
            "{gathered}
            s_before = Shape <end = {axis}> (codes)
            s_after = Shape <start = {after}> (codes)
            s_blocks = Shape <start = {axis}, end = {after}> (s_own)
            s_shape = Concat <axis = 0> (s_before, s_blocks, s_after)
            s = Expand (s_own, s_shape)"
        ))
    }
}

/// Writes the nodes that give each scale the zero point of unsigned codes that have none.
fn default_zeros(bits: usize, scales: &str) -> String {
    format!(
        "zeros_shape = Shape ({scales})
        zeros = ConstantOfShape <value = uint8[1] {{{}}}> (zeros_shape)",
        1 << (bits - 1)
    )
}

/// Writes the nodes that gather zero points, which are packed like codes.
fn gather_zeros(bits: usize) -> String {
    let unpack = unpack(bits, "zeros_gathered", "zeros_padded");
    format!(
        "zeros_gathered = Gather <axis = 0> (zero_points, places)
        {unpack}
        none = Constant <value_ints = [0]> ()
        last = Constant <value_ints = [-1]> ()
        count = Shape <start = -1> (s)
        zeros = Slice (zeros_padded, none, count, last)"
    )
}

/// Writes the nodes that unpack the codes of the bytes in `from` to `to`, along the last axis.
pub(super) fn unpack(bits: usize, from: &str, to: &str) -> String {
    if bits == 8 {
        return format!("{to} = Identity ({from})");
    }
    let mask = (1 << bits) - 1;
    let mut nodes = format!(
        "{to}_mask = Constant <value = uint8 {{{mask}}}> ()
        {to}_axis = Constant <value_ints = [-1]> ()"
    );
    let mut parts = Vec::new();
    for i in 0..8 / bits {
        nodes += &format!(
            " {to}_by{i} = Constant <value = uint8 {{{}}}> ()
            {to}_shifted{i} = BitShift <direction = \"RIGHT\"> ({from}, {to}_by{i})
            {to}_codes{i} = BitwiseAnd ({to}_shifted{i}, {to}_mask)
            {to}_part{i} = Unsqueeze ({to}_codes{i}, {to}_axis)",
            i * bits
        );
        parts.push(format!("{to}_part{i}"));
    }
    let parts = parts.join(", ");
    format!(
        "{nodes}
        {to}_parts = Concat <axis = -1> ({parts})
        {to}_outer = Shape <end = -1> ({from})
        {to}_shape = Concat <axis = 0> ({to}_outer, {to}_axis)
        {to} = Reshape ({to}_parts, {to}_shape)"
    )
}
