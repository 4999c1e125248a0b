//! Replaces a product with constant block-quantized weights by one that reads their codes.

use super::super::fuse::{Replaced, tensor};
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        blockwise::{Arithmetic, Blocks, Codes, DequantizeBlocks, MatMulBlocks},
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
        // The codes of a column fill whole blocks, so one that exceeds the axis ends with it.
        let most = k.checked_next_multiple_of(ALIGN)?;
        let block = usize::try_from(granularity.block_size).ok()?.min(most);
        let along = if granularity.axis < 0 { granularity.axis + 2 } else { granularity.axis };
        let is_aligned = block > 0 && block.is_multiple_of(ALIGN);
        if along != axis || !is_aligned || n == 0 || k == 0 {
            return None;
        }
        let zeros = node.input(2).map(|_| constant(2));
        if zeros.is_some_and(|zeros| zeros.is_none()) {
            return None;
        }
        let arithmetic = Arithmetic::Float;
        let blocks = Blocks { codes: Codes::Integers(bits), n, k, block, arithmetic };
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

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// Compiles a model, and returns its graph after the passes and the plan.
    fn compile(text: String) -> (String, crate::plan::Plan) {
        let mut after = String::new();
        let plan = crate::Compiler::new(&Options::default())
            .observe(|_, graph| after = graph.to_string())
            .plan(text.into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        (after, plan)
    }

    /// Runs a plan on a row that counts from 1.
    fn run(plan: &crate::plan::Plan, k: u16) -> Vec<f64> {
        let x: Vec<f32> = (1..=k).map(f32::from).collect();
        let x = Tensor { shape: vec![1, usize::from(k)], ..Tensor::from_floats(&x) };
        let made = interpreter::run(plan, &[Value::Tensor(x)]).expect("the input fits");
        made[0].tensor().and_then(Tensor::floats).expect("floats")
    }

    fn list(elements: impl Iterator<Item = i32>) -> String {
        elements.map(|x| x.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// A product with two columns of 32 weights in blocks of 16: the numbers from -8 to 7, and 1.
    fn linear(transposed: bool, zeros: &str) -> String {
        let first = |row: i32| row % 16 - 8;
        let (shape, axis, scales, weights, nodes) = if transposed {
            let weights = list((0..32).map(first).chain([1; 32]));
            let nodes = "t = Transpose<perm = [1, 0]>(d) y = MatMul(x, t)";
            ("2, 32", 1, "float[2, 2] s = {1, 2, 0.5, 4}", weights, nodes)
        } else {
            let weights = list((0..32).flat_map(|row| [first(row), 1]));
            ("32, 2", 0, "float[2, 2] s = {1, 0.5, 2, 4}", weights, "y = MatMul(x, d)")
        };
        let operands = if zeros.is_empty() { "w, s" } else { "w, s, z" };
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]> g (float[m, 32] x) => (float[m, 2] y)
            <int4[{shape}] w = {{{weights}}}, {scales} {zeros}>
            {{ d = DequantizeLinear<axis = {axis}, block_size = 16>({operands}) {nodes} }}"
        )
    }

    #[test]
    fn a_block_beyond_the_axis_takes_no_more_codes() {
        for block in [18, 32, 1 << 40, i64::MAX] {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[m, 17] x) => (float[m, 2] y)
                <int8[17, 2] w = {{{}}}, float[1, 2] s = {{2, 0.5}}>
                {{ d = DequantizeLinear<axis = 0, block_size = {block}>(w, s) y = MatMul(x, d) }}",
                list((0..17).flat_map(|row| [row - 8, 1]))
            );
            let (_, plan) = compile(text);
            assert_eq!(run(&plan, 17), [816.0, 76.5], "{block}");
        }
    }

    #[test]
    fn blocks_of_a_dequantized_matrix_stay_codes() {
        let first = |from: i32, zero: i32| -> i32 {
            (0..16).map(|i| (from + i) * (i - 8 - zero)).sum::<i32>()
        };
        let rest = |from: i32, zero: i32| -> i32 { (0..16).map(|i| (from + i) * (1 - zero)).sum() };
        for (transposed, zeros, zero) in [
            (false, "", [0; 4]),
            (true, "", [0; 4]),
            (false, ", int4[2, 2] z = {1, 0, 2, -3}", [1, 2, 0, -3]),
            (true, ", int4[2, 2] z = {1, 2, 0, -3}", [1, 2, 0, -3]),
        ] {
            let (after, plan) = compile(linear(transposed, zeros));
            assert!(after.contains("MatMulBlocks"), "{after}");
            assert!(after.contains("arithmetic = \"float\""), "{after}");
            let wanted = [
                f64::from(first(1, zero[0]) + 2 * first(17, zero[1])),
                0.5 * f64::from(rest(1, zero[2])) + f64::from(4 * rest(17, zero[3])),
            ];
            assert_eq!(run(&plan, 32), wanted, "transposed {transposed}, zero points {zero:?}");
        }
    }

    #[test]
    fn other_matrices_are_dequantized_first() {
        // Blocks along the other axis, and blocks that are no multiple of a word of codes.
        for (shape, axis, block, scales) in
            [("32, 16", 1, 16, "float[32, 1]"), ("32, 2", 0, 8, "float[4, 2]")]
        {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[m, 32] x, {scales} s) => (y)
                <int4[{shape}] w = {{{}}}>
                {{
                    d = DequantizeLinear<axis = {axis}, block_size = {block}>(w, s)
                    y = MatMul(x, d)
                }}",
                list((0..if block == 16 { 512 } else { 64 }).map(|i| i % 16 - 8))
            );
            let (after, _) = compile(text);
            assert!(!after.contains("MatMulBlocks"), "{after}");
        }
    }

    /// Returns the graph and the plan of a `MatMulNBits` with one column of 32 equal weights.
    fn matmul_nbits(attributes: &str, operands: &str) -> (String, crate::plan::Plan) {
        compile(format!(
            "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]>
            g (float[m, 32] x) => (float[m, 1] y)
            <uint8[1, 1, 8] two = {{{two}}}, uint8[1, 1, 16] w = {{{four}}}, float[1] s = {{2}},
                uint8[1, 1] zeros = {{7}}, float[1, 1] numbers = {{6.5}},
                int32[32] groups = {{{none}}}>
            {{ y = com.microsoft.MatMulNBits<K = 32, N = 1, {attributes}>(x, {operands}) }}",
            two = list([0xff; 8].into_iter()),
            four = list([0x99; 16].into_iter()),
            none = list([0; 32].into_iter()),
        ))
    }

    #[test]
    fn level_4_multiplies_integers_where_onnx_runtime_does() {
        let total = f64::from((1..=32).sum::<i32>());
        for (attributes, operands, arithmetic, weight) in [
            ("block_size = 32, accuracy_level = 4", "w, s", "int8", 2.0),
            ("block_size = 32, accuracy_level = 4", "w, s, zeros", "int8", 4.0),
            ("bits = 2, block_size = 32, accuracy_level = 4", "two, s", "int8", 2.0),
            ("block_size = 32, accuracy_level = 1", "w, s", "float", 2.0),
            ("block_size = 32", "w, s", "float", 2.0),
            ("block_size = 32, accuracy_level = 4", "w, s, numbers", "float", 5.0),
        ] {
            let (after, plan) = matmul_nbits(attributes, operands);
            assert!(after.contains(&format!("arithmetic = \"{arithmetic}\"")), "{after}");
            let found = run(&plan, 32)[0];
            // A row has 255 steps, so an element is off by at most half a step.
            let step = if arithmetic == "int8" { 32.0 * weight * 0.5 * 32.0 / 127.0 } else { 0.0 };
            assert!((found - weight * total).abs() <= step, "{attributes}: {found}");
        }
        let (after, _) = matmul_nbits("block_size = 32, accuracy_level = 4", "w, s, \"\", groups");
        assert!(!after.contains("int8\""), "{after}");
    }

    /// A scale cannot be folded into codes, and an addend is no bias of a product of floats.
    #[test]
    fn operators_behind_a_product_of_codes_keep_its_weights() {
        for (last, factor, addend) in [
            ("y = Mul(p, half)", 0.5, 0.0),
            ("y = Div(p, half)", 2.0, 0.0),
            ("y = Sub(half, p)", -1.0, 0.5),
            ("y = Add(p, half)", 1.0, 0.5),
        ] {
            let (_, plan) = compile(format!(
                "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]>
                g (float[m, 32] x) => (float[m, 1] y)
                <uint8[1, 1, 16] w = {{{}}}, float[1] s = {{2}}, float[1] half = {{0.5}}> {{
                    p = com.microsoft.MatMulNBits<K = 32, N = 1, block_size = 32>(x, w, s)
                    {last}
                }}",
                list([0x99; 16].into_iter())
            ));
            let total = f64::from((1..=32).sum::<i32>());
            assert_eq!(run(&plan, 32), [factor * 2.0 * total + addend], "{last}");
        }
    }
}
